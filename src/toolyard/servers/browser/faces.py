"""How each tool looks in the two languages."""

from ...kit.languages import Face

REF = ("A reference of a snapshot, such as e12 or f1e12", "Uma referência de um snapshot, como e12 ou f1e12")
SELECTOR = ("A CSS selector", "Um seletor CSS")


def _both(
    tool: str, en: tuple[str, str], pt: tuple[str, str], **parameters: tuple[str, str]
) -> tuple[Face, Face]:
    """The names are the same in both."""
    faces = [
        Face(
            name=tool,
            title=title,
            description=description,
            parameters={parameter: said[index] for parameter, said in parameters.items()},
        )
        for index, (title, description) in enumerate((en, pt))
    ]
    return faces[0], faces[1]


NAVIGATE = _both(
    "browser_navigate",
    ("Open a page", "Open a web page and show it as an outline with references. Only http and https."),
    ("Abrir página", "Abre uma página web e a mostra como esboço com referências. Só http e https."),
    url=("The address, such as https://example.com/", "O endereço, como https://example.com/"),
)
SNAPSHOT = _both(
    "browser_snapshot",
    ("Look at the page", "Show the active page, or its active frame, as an outline with references."),
    ("Ver a página", "Mostra a página ativa, ou seu frame ativo, como esboço com referências."),
    start=(
        "The line of the outline to begin with, for long pages",
        "A linha do esboço em que começar, para páginas longas",
    ),
)
SCREENSHOT = _both(
    "browser_screenshot",
    ("Take a picture", "Take a picture of what the window shows, of the whole page, or of one element."),
    ("Capturar imagem", "Captura uma imagem do que a janela mostra, da página inteira ou de um elemento."),
    full_page=(
        "The whole page, not only what the window shows",
        "A página inteira, não só o que a janela mostra",
    ),
    selector=("Only the element of this CSS selector", "Só o elemento deste seletor CSS"),
    ref=REF,
)
CLICK = _both(
    "browser_click",
    ("Click", "Click an element, named by its reference, its text (and role), or a selector."),
    ("Clicar", "Clica em um elemento, indicado por sua referência, seu texto (e papel) ou um seletor."),
    text=(
        "Its visible text, or its name when a role is given",
        "Seu texto visível, ou seu nome quando há um papel",
    ),
    selector=SELECTOR,
    role=("Its role, such as button or link", "Seu papel, como button ou link"),
    ref=REF,
)
TYPE = _both(
    "browser_type",
    (
        "Type",
        "Put a text into a field, in place of what it held; the field is named by ref, label or selector.",
    ),
    (
        "Digitar",
        "Põe um texto em um campo, no lugar do que havia; o campo é indicado por ref, rótulo ou seletor.",
    ),
    text=("What to type", "O que digitar"),
    label=("The field's label, placeholder or name", "O rótulo, placeholder ou nome do campo"),
    selector=SELECTOR,
    ref=REF,
    submit=("Press Enter afterwards", "Pressionar Enter em seguida"),
)
SELECT = _both(
    "browser_select_option",
    ("Choose an option", "Choose an option of a list, by its value or its text."),
    ("Escolher opção", "Escolhe uma opção de uma lista, por seu valor ou seu texto."),
    selector=SELECTOR,
    value=("The value or the text of the option", "O valor ou o texto da opção"),
    ref=REF,
)
READ = _both(
    "browser_read_content",
    ("Read", "Read what the page, or a part of it, says, as text with headings, lists, links and tables."),
    ("Ler", "Lê o que a página, ou parte dela, diz, como texto com títulos, listas, links e tabelas."),
    selector=("Only this part; all of the page without", "Só esta parte; sem ele, a página toda"),
    start=("The character to begin with, for long pages", "O caractere em que começar, para páginas longas"),
)
CLOSE = _both(
    "browser_close",
    ("Close", "Close all pages. Cookies are kept for the next visit."),
    ("Fechar", "Fecha todas as páginas. Os cookies ficam para a próxima visita."),
)
EVALUATE = _both(
    "browser_evaluate_js",
    ("Run a script", "Run JavaScript in the active frame; its value and the page as it is then come back."),
    ("Executar script", "Executa JavaScript no frame ativo; voltam seu valor e a página como está depois."),
    script=(
        "An expression, a function, or statements with return",
        "Uma expressão, uma função ou comandos com return",
    ),
)
SWITCH = _both(
    "browser_switch_frame",
    ("Switch frames or pages", "List frames and open pages, or make one of them the active one."),
    ("Trocar de frame ou página", "Lista frames e páginas abertas, ou torna um deles o ativo."),
    name=(
        "A frame's name, number (f1) or part of its address; main is the page itself; page:2 another page",
        "O nome, número (f1) ou parte do endereço do frame; main volta à página; page:2 vai a outra página",
    ),
    list_frames=("Only list them", "Só listá-los"),
)
