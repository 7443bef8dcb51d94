"""`toolyard vault` and `toolyard secret`: the vault's keys and backups, and the secrets in it.

No command takes a secret as an argument, where other users of the machine would see it, and none prints one,
except a new master key that was asked for.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..configuration.loader import places
from ..serving.vault import with_vault
from ..ui.messages import CommandError, hint, is_terminal, one_line, warn
from ..ui.output import print_json
from ..ui.tables import counted, print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...vault.backup import BackupImport
    from ...vault.master_keys import MasterKey
    from ...vault.vault import Vault, VaultStatus

MAX_INPUT = 512 << 10


@click.group("vault", short_help="Master key, status, rotation and backups of the vault.")
def vault() -> None:
    """Secrets at rest: tokens, API keys, credential profiles and the secrets of the configuration.

    They are in the state store of the configuration, sealed under a key of each tenant. A master key wraps
    those keys: [vault] key says where it is.
    """


@vault.command("status", short_help="Where the key is, and what the vault holds.")
@config_option
@json_option
def status(config: Path | None, as_json: bool) -> None:
    """Show the source of the master key, how many secrets there are, and whether all of them can be opened.

    Exit status: 0, or 1 if something is wrong.
    """
    settings = places(config)
    found = with_vault(settings, lambda opened: opened.status())
    if as_json:
        from msgspec import to_builtins

        print_json(to_builtins(found))
    else:
        _print_status(found, settings.state.url.partition(":")[0] or "sqlite")
    if found.problem or found.unknown:
        raise click.exceptions.Exit(1)


def _print_status(found: "VaultStatus", store: str) -> None:
    click.echo(
        f"master key  {found.master or ('not usable' if found.problem else 'none yet')}  ({found.key})"
    )
    click.echo(f"store       {store}")
    click.echo(f"tenants     {found.tenants}")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.secrets.items()))
    click.echo(f"secrets     {sum(found.secrets.values())}" + (f"  ({kinds})" if kinds else ""))
    for id, count in found.earlier.items():
        if id in found.unknown:
            warn(
                f"{counted(count, 'tenants')} cannot be opened: the master key {id} is not known here",
                "put that key back, or name its source in `previous` of [vault]; if there is no copy of it, "
                "`toolyard vault import` an export",
            )
        else:
            warn(
                f"{counted(count, 'tenants')} still have the master key {id}",
                "`toolyard vault rotate` goes on",
            )
    if found.problem:
        warn(found.problem, found.hint)


@vault.command("init", short_help="Make the master key.")
@click.option("--print", "prints", is_flag=True, help="Print a new key for a variable, and store nothing.")
@config_option
def init(prints: bool, config: Path | None) -> None:
    """Make the master key where [vault] key says, or in the state folder of this machine.

    A gateway on one machine makes it by itself when it first needs it. Keep a copy elsewhere: without it, or
    an export, secrets cannot be opened again.
    """
    from ...vault.master_keys import new_key

    if prints:
        click.echo(new_key().as_text())
        hint(
            'set it for every gateway, as TOOLYARD_VAULT_KEY or as [vault] key = "env:NAME"; it is shown once'
        )
        return

    async def make(opened: "Vault") -> tuple[bool, str, str]:
        is_new = await opened.make_master()
        await opened.check()
        return is_new, (await opened.keys.current()).id, opened.keys.source.shown

    is_new, id, place = with_vault(places(config), make)
    click.echo(f"{'Made' if is_new else 'There is already'} the master key {id} in {place}.")
    if is_new:
        hint("keep a copy of it elsewhere, or run `toolyard vault export` from time to time")


@vault.command("rotate", short_help="Replace the master key, while gateways run.")
@click.option(
    "--forget", is_flag=True, help="Also drop earlier keys from the file, if nothing in the store needs them."
)
@config_option
def rotate(forget: bool, config: Path | None) -> None:
    """Wrap the keys of all tenants by a new master key. Gateways go on meanwhile; secrets are not touched.

    With a key in a file, the new one is made and put into the same file, before the old ones; one rotation
    runs at a time. With any other source, first name the new one in `key` and the old one in `previous` of
    [vault], and restart the gateways. If it is stopped, run it again: it goes on where it was.
    """
    from ...vault.rotation import rotate as rotate_master

    done = with_vault(places(config), lambda opened: rotate_master(opened, forget=forget))
    click.echo(
        f"The master key is {done.master} now: {counted(done.rewrapped, 'tenants')} moved of {done.total}."
    )
    if done.dropped:
        click.echo(f"Dropped from the file: {', '.join(done.dropped)}.")
        hint(
            "backups of the store from before need a copy of them, as do other stores with the same key file"
        )
    hint(
        "keep a copy of it elsewhere; replicas with a file of their own need it there too, as its first line"
    )


@vault.command("export", short_help="Write a sealed backup of all secrets.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--key", "key", metavar="SOURCE", help="Seal it with this master key instead, such as age:PATH."
)
@config_option
def export(file: Path, key: str | None, config: Path | None) -> None:
    """Write all secrets to FILE, sealed under a passphrase that is asked for, or read from standard input.

    The backup opens without this vault and its master key.
    """
    from ...vault import backup

    if file.exists():
        raise CommandError(f"{str(file)!r} exists already", "name another file")
    by = _key_or_passphrase(key, confirm=True)

    async def write(opened: "Vault") -> int:
        content, count = await backup.export(opened, by)
        _write_private(file, content)
        return count

    count = with_vault(places(config), write)
    click.echo(f"Wrote {counted(count, 'secrets')} to {file}.")


@vault.command("import", short_help="Read a sealed backup back.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--key", "key", metavar="SOURCE", help="The master key that it was sealed with.")
@click.option("--overwrite", is_flag=True, help="Replace secrets that the vault has with another value.")
@config_option
def import_backup(file: Path, key: str | None, overwrite: bool, config: Path | None) -> None:
    """Put the secrets of a backup into the vault. What the vault has already stays, unless --overwrite."""
    from ...vault import backup
    from ...vault.base import VaultError
    from ...vault.envelope import described

    try:
        raw = file.read_bytes()
        saved = backup.opened(raw, _key_or_passphrase(key, confirm=False))
    except VaultError as error:
        raise CommandError(error.message, error.hint) from None
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be read: {error.strerror}") from None

    async def read(opened: "Vault") -> "BackupImport":
        return await backup.import_all(opened, saved, overwrite)

    done = with_vault(places(config), read)
    click.echo(f"Imported {counted(done.written, 'secrets')}; there already: {done.same}.")
    for address in done.kept[:20]:
        warn(f"kept {described(address)}: the vault has another value")
    if done.kept:
        hint("--overwrite replaces them")


def _key_or_passphrase(source: str | None, confirm: bool) -> "str | MasterKey":
    from ...vault.base import VaultError
    from ...vault.master_keys import source_of

    if source is None:
        return _asked_for("Passphrase", confirm)
    try:
        return source_of(source).load()[0]
    except VaultError as error:
        raise CommandError(error.message, error.hint) from None


def _write_private(file: Path, content: bytes) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be written: {error.strerror}") from None


def _asked_for(what: str, confirm: bool) -> str:
    """A secret from the terminal, without an echo, or from standard input."""
    if is_terminal(sys.stdin):
        found: str = click.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True)
        return found
    raw = sys.stdin.buffer.read(MAX_INPUT + 1)
    try:
        text = raw.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandError("standard input is not a text", "a secret is UTF-8") from None
    if not text or len(raw) > MAX_INPUT or "\0" in text:
        raise CommandError(f"no {what.lower()} on standard input", f"pipe it in, at most {MAX_INPUT} bytes")
    return text


# Secrets of the configuration


@click.group("secret", short_help="Set, list and delete secrets of the vault.")
def secret() -> None:
    """Secrets for the configuration: ${secret:NAME} in it stands for the value.

    A running gateway takes over a new value within ten seconds.
    """


@secret.command("set", short_help="Store a secret, from standard input or a prompt.")
@click.argument("name")
@config_option
def set_secret(name: str, config: Path | None) -> None:
    """Store the secret NAME. The value is asked for, or read from standard input; a line end is left out."""
    from ...vault.references import named_secret

    _check_name(name)
    value = _asked_for(f"Value of {name}", confirm=False)
    with_vault(places(config), lambda opened: opened.put(named_secret(name), value.encode()))
    click.echo(f"Stored the secret {name!r}.")
    hint(f"use it in the configuration as ${{secret:{name}}}")


@secret.command("list", short_help="List the names of secrets.")
@config_option
@json_option
def list_secrets(config: Path | None, as_json: bool) -> None:
    """List the secrets by name. Values are not shown by any command."""
    from ...vault.base import GATEWAY_TENANT

    found = with_vault(places(config), lambda opened: opened.list(GATEWAY_TENANT, "", "named"))
    if as_json:
        print_json([{"name": one.name} for one in found])
    elif found:
        print_table(
            ("name", "in the configuration"),
            [(one_line(one.name), f"${{secret:{one.name}}}") for one in found],
        )
    else:
        click.echo("No secrets yet.")
        hint("`toolyard secret set NAME` stores one")


@secret.command("delete", short_help="Delete a secret.")
@click.argument("name")
@config_option
def delete_secret(name: str, config: Path | None) -> None:
    """Delete the secret NAME. Servers that refer to it cannot be used any more."""
    from ...vault.references import named_secret

    if not with_vault(places(config), lambda opened: opened.delete(named_secret(name))):
        raise CommandError(f"no secret {name[:80]!r}", "`toolyard secret list` shows the names")
    click.echo(f"Deleted the secret {name!r}.")


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > 200 or not name.isprintable() or "}" in name or name.startswith("-"):
        raise CommandError(
            f"{name[:80]!r} cannot be the name of a secret", "1 to 200 printable characters without }"
        )
