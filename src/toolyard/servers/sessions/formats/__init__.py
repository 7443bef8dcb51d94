"""The file formats that conversations are imported from."""
