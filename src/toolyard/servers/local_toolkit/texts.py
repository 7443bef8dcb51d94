"""The server's texts in English and Portuguese: descriptions of the tools, and messages by kind.

The sentences of the seed are kept word for word in English.
"""

from ...kit.localization import Locale, LocalizedTool

MESSAGES: dict[str, tuple[str, str]] = {
    "title": ("Local toolkit", "Ferramentas locais"),
    "instructions": (
        "Files of this conversation, in a workspace of its own. Paths are relative to the workspace (or "
        "absolute "
        "and inside it). Write results here and read them back; every file is also a resource, "
        "workspace:///PATH.",
        "Arquivos desta conversa, em uma área de trabalho própria. Caminhos são relativos a ela (ou "
        "absolutos e "
        "dentro dela). Grave resultados aqui e leia-os de volta; cada arquivo é também um recurso, "
        "workspace:///CAMINHO.",
    ),
    "error": ("Error: {reason}", "Erro: {reason}"),
    "wrote": ("Successfully wrote {count} chars to {path}", "{count} caracteres gravados em {path}"),
    "part": (
        "[bytes {start} to {end} of {size}; read on with start={end}]",
        "[bytes {start} a {end} de {size}; continue com start={end}]",
    ),
    "last_part": ("[bytes {start} to {end} of {size}]", "[bytes {start} a {end} de {size}]"),
    "binary": (
        "{path} is not text: {mime_type}, {size} bytes. Its bytes are the resource {uri}.",
        "{path} não é texto: {mime_type}, {size} bytes. Seus bytes são o recurso {uri}.",
    ),
    "picture": ("{path}: {mime_type}, {size} bytes", "{path}: {mime_type}, {size} bytes"),
    "start_after": (
        "start={start} is after the end of {path!r}, which has {size} bytes",
        "start={start} está depois do fim de {path!r}, que tem {size} bytes",
    ),
    "not_unicode": (
        "the content has a lone surrogate at character {at}; send valid Unicode text",
        "o conteúdo tem um substituto isolado no caractere {at}; envie texto Unicode válido",
    ),
    "nothing_to_compress": (
        "'files' is empty; name at least one file",
        "'files' está vazia; diga um arquivo",
    ),
    "compressing": ("{count} of {total}: {path}", "{count} de {total}: {path}"),
}


def message(locale: Locale, kind: str, **values: object) -> str:
    english, portuguese = MESSAGES[kind]
    return (english if locale == "en" else portuguese).format(**values)


_PATH_EN = "Path relative to the workspace, or absolute and inside it"
_PATH_PT = "Caminho relativo à área de trabalho, ou absoluto e dentro dela"

WRITE = {
    "en": LocalizedTool(
        name="write_local_file",
        title="Write a file",
        description="Write text to a file in the workspace, for reports, notes or code. Makes missing "
        "folders and "
        "replaces an existing file; a reader sees the old or the new content, never a part.",
        parameters={"path": _PATH_EN, "content": "The whole text of the file"},
    ),
    "pt": LocalizedTool(
        name="write_local_file",
        title="Gravar um arquivo",
        description="Grava texto em um arquivo da área de trabalho, para relatórios, notas ou código. Cria "
        "pastas "
        "que faltam e substitui um arquivo existente; quem lê vê o conteúdo antigo ou o novo, nunca uma "
        "parte.",
        parameters={"path": _PATH_PT, "content": "O texto inteiro do arquivo"},
    ),
}
READ = {
    "en": LocalizedTool(
        name="read_local_file",
        title="Read a file",
        description="Read a file of the workspace. Text comes in parts if it is long (the reply says where "
        "to read "
        "on), a picture comes as an image, and any other file is described by its type and size.",
        parameters={
            "path": _PATH_EN,
            "start": "The first byte to read",
            "size": "How many bytes to read at most; 0 for as many as fit",
        },
    ),
    "pt": LocalizedTool(
        name="read_local_file",
        title="Ler um arquivo",
        description="Lê um arquivo da área de trabalho. Texto longo vem em partes (a resposta diz onde "
        "continuar), "
        "uma imagem vem como imagem, e qualquer outro arquivo é descrito por tipo e tamanho.",
        parameters={
            "path": _PATH_PT,
            "start": "O primeiro byte a ler",
            "size": "Quantos bytes ler no máximo; 0 para quantos couberem",
        },
    ),
}
LIST = {
    "en": LocalizedTool(
        name="list_directory",
        title="List a folder",
        description="List the files and folders in a folder of the workspace, with their sizes and times.",
        parameters={"path": f"{_PATH_EN}; '.' is the workspace itself"},
    ),
    "pt": LocalizedTool(
        name="list_directory",
        title="Listar uma pasta",
        description="Lista os arquivos e pastas de uma pasta da área de trabalho, com tamanhos e datas.",
        parameters={"path": f"{_PATH_PT}; '.' é a própria área de trabalho"},
    ),
}
COMPRESS = {
    "en": LocalizedTool(
        name="compress_files",
        title="Compress files",
        description="Put files of the workspace into one flat zip archive there, for example to attach them. "
        "Files with the same name get a number.",
        parameters={"files": "The paths of the files", "output_archive": "The path of the zip to write"},
    ),
    "pt": LocalizedTool(
        name="compress_files",
        title="Compactar arquivos",
        description="Põe arquivos da área de trabalho em um arquivo zip sem pastas, também lá, por exemplo "
        "para "
        "anexá-los. Arquivos com o mesmo nome recebem um número.",
        parameters={"files": "Os caminhos dos arquivos", "output_archive": "O caminho do zip a gravar"},
    ),
}
