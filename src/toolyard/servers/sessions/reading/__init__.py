"""Reading conversations from files: one module for each form, and one for lines of any length."""
