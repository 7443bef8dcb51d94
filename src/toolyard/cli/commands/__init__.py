"""The subcommands of `toolyard`, loaded when asked for, with the options that they share."""
