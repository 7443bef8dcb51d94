"""What results that fit cost: the stage for small ones, shaping for big ones, and reading them back."""
