"""The error of a workspace, and its sentences in English and Portuguese.

Owns the codes. Every server with a workspace explains them alike, so the sentences stand here.
"""

import errno
import json
from typing import Literal

WorkspaceCode = Literal[
    "outside",
    "link",
    "missing",
    "not_a_file",
    "not_a_folder",
    "exists",
    "too_large",
    "full",
    "too_many",
    "disk_full",
    "bad_name",
    "denied",
    "no_folder",
    "no_place",
    "others",
    "failed",
]

_CODES: dict[int, WorkspaceCode] = {
    errno.ENOENT: "missing",
    errno.EXDEV: "outside",
    errno.ELOOP: "link",
    errno.ENOTDIR: "not_a_folder",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",  # a socket, or a FIFO that nobody reads
    errno.ENODEV: "not_a_file",
    errno.EOPNOTSUPP: "not_a_file",  # a socket, on macOS
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "exists",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "too_large",
    errno.ENAMETOOLONG: "bad_name",
    errno.EINVAL: "bad_name",
    errno.EILSEQ: "bad_name",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
}

_TEXTS: dict[str, dict[WorkspaceCode, str]] = {
    "en": {
        "outside": "{path!r} is outside the workspace. Use a path relative to it, such as 'notes/a.md'."
        "{allowed}",
        "link": "{path!r} is a symbolic link or passes through one, and links are not followed. "
        "Use the path of the file itself.",
        "missing": "There is no {path!r} in the workspace.",
        "not_a_file": "{path!r} is not a file.",
        "not_a_folder": "{path!r} is not a folder, or a part of it is a file.",
        "exists": "{path!r} exists already.",
        "too_large": "{path!r} is too large{limit}.",
        "full": "No room for {path!r}: the workspace is full{limit}. Remove files that are no longer needed.",
        "too_many": "No room for {path!r}: the workspace has too many files and folders{limit}. "
        "Remove some that are no longer needed.",
        "disk_full": "No room for {path!r}: the disk is full.",
        "bad_name": "{path!r} cannot be the name of a file here: {detail}.",
        "denied": "No permission for {path!r}.",
        "no_folder": "The workspace {path!r} cannot be opened: {detail}.",
        "no_place": "The workspaces of callers with a name or a conversation are in {path!r}, which cannot "
        "be used: {detail}. Set 'workspace' to a folder beside which it can be made.",
        "others": "Code cannot run in this workspace, because {path!r} has folders of other callers, as "
        "older versions made them. Move those to {detail!r}, or remove them.",
        "failed": "{path!r} cannot be used: {detail}.",
    },
    "pt": {
        "outside": "{path!r} está fora da área de trabalho. Use um caminho relativo a ela, como "
        "'notas/a.md'.{allowed}",
        "link": "{path!r} é um link simbólico ou passa por um, e links não são seguidos. "
        "Use o caminho do próprio arquivo.",
        "missing": "Não há {path!r} na área de trabalho.",
        "not_a_file": "{path!r} não é um arquivo.",
        "not_a_folder": "{path!r} não é uma pasta, ou uma parte dele é um arquivo.",
        "exists": "{path!r} já existe.",
        "too_large": "{path!r} é grande demais{limit}.",
        "full": "Não há espaço para {path!r}: a área de trabalho está cheia{limit}. "
        "Remova arquivos que não são mais necessários.",
        "too_many": "Não há espaço para {path!r}: a área de trabalho tem arquivos e pastas demais{limit}. "
        "Remova alguns que não são mais necessários.",
        "disk_full": "Não há espaço para {path!r}: o disco está cheio.",
        "bad_name": "{path!r} não pode ser o nome de um arquivo aqui: {detail}.",
        "denied": "Sem permissão para {path!r}.",
        "no_folder": "A área de trabalho {path!r} não pode ser aberta: {detail}.",
        "no_place": "As áreas de trabalho de quem tem nome ou conversa ficam em {path!r}, que não pode ser "
        "usada: {detail}. Defina 'workspace' como uma pasta ao lado da qual ela possa ser criada.",
        "others": "Nenhum código pode rodar nesta área de trabalho, porque {path!r} tem pastas de outras "
        "pessoas, como as versões antigas as criavam. Mova-as para {detail!r}, ou remova-as.",
        "failed": "{path!r} não pode ser usado: {detail}.",
    },
}

_ALLOWED = {
    "en": " Whoever runs this server can allow it, with this line in its table of the configuration: {line}",
    "pt": " Quem administra este servidor pode permiti-lo, com esta linha na tabela dele na configuração: "
    "{line}",
}

_DETAILS = {
    "empty": "it is empty",
    "long": "it is too long",
    "deep": "it has too many folders",
    "control": "it has a control character",
    "backslash": "it has a backslash; use / between folders",
    "look_alike": "it has a character that looks like a slash or a dot",
    "reserved": "names that begin with .toolyard are reserved",
    "kept": "it belongs to the run, and can only be read",
    "address": "it is an address, not a path",
    "unset": "no folder is configured and this user has no home; set 'workspace' or TOOLYARD_WORKSPACE",
    "mounted": "the workspace is a disk of its own",
    "stranger": "it belongs to another user",
    "unsupported": "this system cannot open files relative to a folder",
}
_DETALHES = {
    "empty": "está vazio",
    "long": "é longo demais",
    "deep": "tem pastas demais",
    "control": "tem um caractere de controle",
    "backslash": "tem uma barra invertida; use / entre as pastas",
    "look_alike": "tem um caractere parecido com uma barra ou um ponto",
    "reserved": "nomes que começam com .toolyard são reservados",
    "kept": "pertence à execução e só pode ser lido",
    "address": "é um endereço, não um caminho",
    "unset": "nenhuma pasta está configurada e este usuário não tem uma; defina 'workspace' ou "
    "TOOLYARD_WORKSPACE",
    "mounted": "a área de trabalho é um disco à parte",
    "stranger": "pertence a outro usuário",
    "unsupported": "este sistema não abre arquivos em relação a uma pasta",
}


class WorkspaceError(Exception):
    """`code` says what is wrong with `path`; `explain` makes the sentence for the caller of a tool.

    `limit` is the bound that was reached: bytes, or a number of files for "too_many". `detail` is a key of
    the details above, or the system's own words. `wider` is the folder that `workspace` would have to be
    for a path outside to be inside; empty if no setting allows it.
    """

    def __init__(
        self, code: WorkspaceCode, path: str, *, limit: int | None = None, detail: str = "", wider: str = ""
    ) -> None:
        super().__init__(code, path)
        self.code: WorkspaceCode = code
        self.path = path
        self.limit = limit
        self.detail = detail
        self.wider = wider

    def __str__(self) -> str:
        return self.explain("en")

    def explain(self, locale: str) -> str:
        texts, details = (_TEXTS["pt"], _DETALHES) if locale == "pt" else (_TEXTS["en"], _DETAILS)
        shown = self.path if len(self.path) <= 200 else self.path[:200] + "…"
        detail = details.get(self.detail, self.detail or details["long"])
        allowed = ""
        if self.wider:
            line = f"options = {{ workspace = {json.dumps(self.wider, ensure_ascii=False)} }}"
            allowed = _ALLOWED["pt" if locale == "pt" else "en"].format(line=line)
        limit = _limit(self, locale)
        return texts[self.code].format(path=shown, detail=detail, limit=limit, allowed=allowed)


def _limit(error: WorkspaceError, locale: str) -> str:
    if error.limit is None:
        return ""
    most = "no máximo" if locale == "pt" else "at most"
    unit = "" if error.code == "too_many" else " bytes"
    return f" ({most} {error.limit:,}{unit})" if locale == "en" else f" ({most} {error.limit}{unit})"


def workspace_error(error: OSError, path: str) -> WorkspaceError:
    """The error of a workspace for one of the system."""
    code = _CODES.get(error.errno or 0, "failed")
    detail = "long" if error.errno == errno.ENAMETOOLONG else error.strerror or type(error).__name__
    return WorkspaceError(code, path, detail=detail)
