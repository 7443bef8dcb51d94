"""The texts of the tools for the workbench, in English and Portuguese: descriptions, sentences and errors."""

from ....kit.localization import LocalizedTool
from ....languages import Locale
from ....workbench import WorkbenchError
from ....workbench.composio import ComposioError

_MESSAGES: dict[str, tuple[str, str]] = {
    "downloaded": (
        "Successfully downloaded {remote} to {local}. Local path: {local}",
        "{remote} foi baixado com sucesso para {local}. Caminho local: {local}",
    ),
    "uploaded": (
        "Successfully uploaded {local} to {remote}.",
        "{local} foi enviado com sucesso para {remote}.",
    ),
    "downloading": ("Downloading {name}", "Baixando {name}"),
    "uploading": ("Uploading {name}", "Enviando {name}"),
    "no_key": (
        "Composio's store needs a key: set COMPOSIO_API_KEY, or the setting composio_api_key. To use the "
        "file "
        "in code instead, call workbench_upload.",
        "O armazenamento da Composio precisa de uma chave: defina COMPOSIO_API_KEY, ou a configuração "
        "composio_api_key. Para usar o arquivo em código, chame workbench_upload.",
    ),
    # Errors of any workbench, by code
    "missing": (
        "The workbench has no file {subject!r}. List its folder there first; paths are like "
        "/home/user/report.csv.",
        "O workbench não tem o arquivo {subject!r}. Liste antes a pasta lá; os caminhos são como "
        "/home/user/relatorio.csv.",
    ),
    "not_a_file": (
        "{subject!r} is not a file of the workbench. Give the whole path of a file, such as "
        "/home/user/report.csv.",
        "{subject!r} não é um arquivo do workbench. Informe o caminho completo de um arquivo, como "
        "/home/user/relatorio.csv.",
    ),
    "exists": (
        "{subject!r} exists already in the workbench.",
        "{subject!r} já existe no workbench.",
    ),
    "outside": (
        "{subject!r} cannot be used in the workbench. Use a path such as /home/user/report.csv.",
        "{subject!r} não pode ser usado no workbench. Use um caminho como /home/user/relatorio.csv.",
    ),
    "denied": (
        "The workbench does not allow it: {reason}.",
        "O workbench não permite: {reason}.",
    ),
    "too_large": (
        "The file is too large: at most {limit} MB. Compress it, or send it in several files.",
        "O arquivo é grande demais: no máximo {limit} MB. Comprima-o, ou envie em vários arquivos.",
    ),
    "full": (
        "The workbench has no space left. Remove files there, and try again.",
        "O workbench não tem mais espaço. Remova arquivos lá, e tente de novo.",
    ),
    "no_session": (
        "There is no session {subject!r} of yours: it has ended, or the id is wrong. Leave session_id out "
        "to use "
        "the workbench of this conversation.",
        "Não há nenhuma sessão sua {subject!r}: ela terminou, ou o id está errado. Omita session_id para "
        "usar o "
        "workbench desta conversa.",
    ),
    "too_many": (
        "All sessions of the workbench are busy. Try again in a moment.",
        "Todas as sessões do workbench estão ocupadas. Tente de novo em instantes.",
    ),
    "unavailable": (
        "The workbench is not available: {reason}. Try again in a moment.",
        "O workbench não está disponível: {reason}. Tente de novo em instantes.",
    ),
    "invalid": (
        "The workbench answered something unexpected: {reason}.",
        "O workbench respondeu algo inesperado: {reason}.",
    ),
    # Errors of Composio, by fault
    "unauthorized": (
        "Composio does not accept the API key (401). Check COMPOSIO_API_KEY, or the setting "
        "composio_api_key.",
        "A Composio não aceita a chave de API (401). Verifique COMPOSIO_API_KEY, ou a configuração "
        "composio_api_key.",
    ),
    "rate_limited": (
        "Composio's rate limit is reached (429). Wait a minute, then try again.",
        "O limite de requisições da Composio foi atingido (429). Espere um minuto, e tente de novo.",
    ),
    "refused": (
        "Composio refused it: {reason}. {fix}",
        "A Composio recusou: {reason}. {fix}",
    ),
    "unreachable": (
        "Composio cannot be reached: {reason}. Check the network, and the setting composio_url.",
        "Não foi possível acessar a Composio: {reason}. Verifique a rede, e a configuração composio_url.",
    ),
    "failing": (
        "Composio failed: {reason}. Nothing is known about the file there; try again in a moment.",
        "A Composio falhou: {reason}. Nada se sabe sobre o arquivo lá; tente de novo em instantes.",
    ),
    "timeout": (
        "Composio did not answer: {reason}. Try again, or send a smaller file.",
        "A Composio não respondeu: {reason}. Tente de novo, ou envie um arquivo menor.",
    ),
    "garbled": (
        "Composio's answer is not valid: {reason}. Check the setting composio_url.",
        "A resposta da Composio não é válida: {reason}. Verifique a configuração composio_url.",
    ),
    "blocked": (
        "Composio named an address for the file that may not be used: {reason}. If it is your own store, "
        "add it to "
        "the setting allow.",
        "A Composio indicou um endereço para o arquivo que não pode ser usado: {reason}. Se for o seu "
        "próprio "
        "armazenamento, inclua-o na configuração allow.",
    ),
    "storage": (
        "Composio's store did not take the file ({reason}). Try again; the address for it may have expired.",
        "O armazenamento da Composio não aceitou o arquivo ({reason}). Tente de novo; o endereço pode ter "
        "expirado.",
    ),
    "interrupted": (
        "The transfer broke off: {reason}. Nothing was changed; try again.",
        "A transferência foi interrompida: {reason}. Nada foi alterado; tente de novo.",
    ),
    "mismatch": (
        "The file did not arrive as it is: {reason}. Do not rely on the copy; try again.",
        "O arquivo não chegou como é: {reason}. Não confie na cópia; tente de novo.",
    ),
    "changed": (
        "The file changed while it was read, so it was not sent. Try again when it is finished.",
        "O arquivo mudou enquanto era lido, e não foi enviado. Tente de novo quando estiver pronto.",
    ),
}


def message(locale: Locale, kind: str, **values: object) -> str:
    return _MESSAGES[kind][locale == "pt"].format(**values)


def explain(locale: Locale, error: WorkbenchError, max_bytes: int) -> str:
    """Say what went wrong and what to do about it."""
    kind = error.fault if isinstance(error, ComposioError) else error.code
    return message(
        locale,
        kind,
        subject=error.subject[:200],
        reason=error.message.rstrip("."),
        fix=error.fix if isinstance(error, ComposioError) else "",
        limit=f"{max_bytes / 1_000_000:g}",
    ).strip()


_SESSION = (
    "The session whose workbench to use, as an earlier result named it; empty: this conversation's own",
    "A sessão cujo workbench usar, como um resultado anterior a indicou; vazio: a desta conversa",
)

DOWNLOAD: dict[Locale, LocalizedTool] = {
    "en": LocalizedTool(
        name="workbench_download",
        title="Download from the workbench",
        description="Copy a file from the workbench, where code runs, into the local workspace. The copy is "
        "checked against the original. Paths of the workbench and of the workspace are not interchangeable.",
        parameters={
            "remote_path": "The file in the workbench, such as /home/user/output.csv",
            "local_path": "Where to put it in the workspace; replaces a file that is there",
            "session_id": _SESSION[0],
        },
    ),
    "pt": LocalizedTool(
        name="workbench_download",
        title="Baixar do workbench",
        description="Copia um arquivo do workbench, onde o código roda, para a área de trabalho local. A "
        "cópia é "
        "conferida com o original. Caminhos do workbench e da área de trabalho não são intercambiáveis.",
        parameters={
            "remote_path": "O arquivo no workbench, como /home/user/saida.csv",
            "local_path": "Onde colocá-lo na área de trabalho; substitui um arquivo que esteja lá",
            "session_id": _SESSION[1],
        },
    ),
}

UPLOAD: dict[Locale, LocalizedTool] = {
    "en": LocalizedTool(
        name="workbench_upload",
        title="Upload to the workbench",
        description="Copy a file of the local workspace into the workbench, for code that runs there. It "
        "arrives "
        "whole or not at all, and the workbench proves that it has it.",
        parameters={
            "local_path": "The file in the workspace",
            "remote_path": "Where to put it in the workbench, such as /home/user/report.html",
            "session_id": _SESSION[0],
        },
    ),
    "pt": LocalizedTool(
        name="workbench_upload",
        title="Enviar ao workbench",
        description="Copia um arquivo da área de trabalho local para o workbench, para o código que roda lá. "
        "Chega inteiro ou não chega, e o workbench prova que o tem.",
        parameters={
            "local_path": "O arquivo na área de trabalho",
            "remote_path": "Onde colocá-lo no workbench, como /home/user/relatorio.html",
            "session_id": _SESSION[1],
        },
    ),
}

ATTACH: dict[Locale, LocalizedTool] = {
    "en": LocalizedTool(
        name="upload_to_composio",
        title="Upload an attachment to Composio",
        description="Upload a file of the local workspace to Composio's store, for a tool that takes a "
        "file. Pass "
        "`s3key`, `mimetype` and `name` of the result as that tool's file argument, such as `attachment` of "
        "GMAIL_SEND_EMAIL. A file is stored for the tool that is named here.",
        parameters={
            "path": "The file in the workspace",
            "tool_slug": "The tool that will get the file",
            "toolkit_slug": "The app of that tool",
            "mime_type": "The media type; empty: by the file's name",
            "session_id": "Also copy the file to /home/user in the workbench of this session",
        },
    ),
    "pt": LocalizedTool(
        name="upload_to_composio",
        title="Enviar um anexo à Composio",
        description="Envia um arquivo da área de trabalho local ao armazenamento da Composio, para uma "
        "ferramenta "
        "que recebe um arquivo. Passe `s3key`, `mimetype` e `name` do resultado como o argumento de "
        "arquivo dessa "
        "ferramenta, como `attachment` de GMAIL_SEND_EMAIL. O arquivo fica guardado para a ferramenta "
        "indicada aqui.",
        parameters={
            "path": "O arquivo na área de trabalho",
            "tool_slug": "A ferramenta que vai receber o arquivo",
            "toolkit_slug": "O aplicativo dessa ferramenta",
            "mime_type": "O tipo de mídia; vazio: pelo nome do arquivo",
            "session_id": "Copia também o arquivo para /home/user no workbench desta sessão",
        },
    ),
}
