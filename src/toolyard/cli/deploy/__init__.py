"""`toolyard deploy`: packages servers for a platform that runs them."""

import click

from .aws_lambda import command as aws_lambda


@click.group("deploy", short_help="Package servers for AWS Lambda.")
def command() -> None:
    """Package servers for a platform that runs them. Nothing is uploaded."""


command.add_command(aws_lambda)
