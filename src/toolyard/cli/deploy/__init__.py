"""`toolyard deploy`: everything that another place needs to run servers, made ready to be handed over."""

import click

from .aws_lambda import command as aws_lambda


@click.group("deploy", short_help="Make what another place needs to run servers.")
def command() -> None:
    """Make what another place needs to run servers. Nothing is uploaded."""


command.add_command(aws_lambda)
