"""How the tools introduce themselves, in both languages. Their names are the seed's in either."""

from ...kit.languages import Face

PATH = "Where it is, such as /memories/clients/acme.md"
CAMINHO = "Onde está, como /memories/clientes/acme.md"


def _faces(
    name: str,
    en: tuple[str, str, dict[str, str]],
    pt: tuple[str, str, dict[str, str]],
) -> dict[str, Face]:
    def face(said: tuple[str, str, dict[str, str]]) -> Face:
        title, description, parameters = said
        return Face(name=name, title=title, description=description, parameters=parameters)

    return {"en": face(en), "pt": face(pt)}


VIEW = _faces(
    "view_memories",
    (
        "View memories",
        "Show a memory, or what a folder of memories holds. Begin with /memories.",
        {"path": "A memory or a folder, such as /memories or /memories/clients"},
    ),
    (
        "Ver memórias",
        "Mostra uma memória, ou o que contém uma pasta de memórias. Comece por /memories.",
        {"path": "Uma memória ou uma pasta, como /memories ou /memories/clientes"},
    ),
)
SAVE = _faces(
    "save_memory",
    (
        "Save a memory",
        "Keep a text at a path. What was there becomes an earlier version. A text that another memory has "
        "already is not saved twice. Lines such as 'title: …', 'kind: …', 'domain: …', 'importance: high' "
        "between two '---' at the top describe it.",
        {"path": PATH, "content": "The whole text, plain or Markdown"},
    ),
    (
        "Guardar memória",
        "Guarda um texto num caminho. O que lá estava passa a versão anterior. Um texto que outra memória "
        "já tem não é guardado duas vezes. Linhas como 'titulo: …', 'tipo: …', 'dominio: …', "
        "'importancia: alta' entre dois '---' no topo descrevem-no.",
        {"path": CAMINHO, "content": "O texto inteiro, simples ou em Markdown"},
    ),
)
UPDATE = _faces(
    "update_memory",
    (
        "Update a memory",
        "Replace a part of a memory. The part must occur exactly once.",
        {
            "path": PATH,
            "old_str": "The text to replace, exactly as it stands there",
            "new_str": "The new text",
        },
    ),
    (
        "Atualizar memória",
        "Substitui uma parte de uma memória. A parte deve ocorrer exatamente uma vez.",
        {"path": CAMINHO, "old_str": "O texto a substituir, exatamente como está", "new_str": "O texto novo"},
    ),
)
DELETE = _faces(
    "delete_memory",
    (
        "Delete a memory",
        "Delete a memory, or a folder with all in it. Versions stay, and can be restored.",
        {"path": "A memory or a folder; not /memories itself"},
    ),
    (
        "Apagar memória",
        "Apaga uma memória, ou uma pasta com tudo o que contém. As versões ficam e podem ser restauradas.",
        {"path": "Uma memória ou uma pasta; não /memories"},
    ),
)
LIST = _faces(
    "list_memories",
    (
        "List memories",
        "List all memories with their titles and kinds, and count them by kind and domain.",
        {},
    ),
    ("Listar memórias", "Lista as memórias com títulos e tipos, e conta-as por tipo e por domínio.", {}),
)
CLEAR = _faces(
    "clear_memories",
    ("Erase all memories", "Erase all memories with all their versions. This cannot be undone.", {}),
    ("Apagar todas as memórias", "Apaga todas as memórias com todas as versões. Não há como desfazer.", {}),
)
SEARCH = _faces(
    "search_memories",
    (
        "Search memories",
        "Find memories by their words and by their meaning, the best first. Questions in English find texts "
        "in Portuguese too, and the other way round.",
        {
            "query": "What to look for, in words or as a question",
            "limit": "How many to show",
            "mode": "Search by words and meaning, or by one of the two",
        },
    ),
    (
        "Procurar memórias",
        "Encontra memórias pelas palavras e pelo sentido, as melhores primeiro. Perguntas em português "
        "encontram também textos em inglês, e vice-versa.",
        {
            "query": "O que procurar, em palavras ou como pergunta",
            "limit": "Quantas mostrar",
            "mode": "Procurar por palavras e sentido, ou por um dos dois",
        },
    ),
)
HISTORY = _faces(
    "view_memory_history",
    (
        "View a memory's history",
        "Show the versions of a memory that are kept, of a deleted one too.",
        {"path": PATH},
    ),
    (
        "Ver histórico da memória",
        "Mostra as versões guardadas de uma memória, também de uma apagada.",
        {"path": CAMINHO},
    ),
)
RESTORE = _faces(
    "restore_memory_version",
    (
        "Restore a version",
        "Give a memory the text of an earlier version, as a new version; a deleted memory comes back.",
        {"path": PATH, "version": "Number of the version, as view_memory_history shows it"},
    ),
    (
        "Restaurar versão",
        "Dá a uma memória o texto de uma versão anterior, como nova versão; uma memória apagada volta.",
        {"path": CAMINHO, "version": "Número da versão, como mostra view_memory_history"},
    ),
)
