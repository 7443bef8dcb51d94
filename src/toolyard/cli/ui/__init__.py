"""What the user sees and types: messages, output, tables, forms, arguments."""
