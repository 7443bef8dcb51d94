"""The server's texts in English and Portuguese: descriptions of the tools, messages and errors."""

from msgspec import Struct

from ...kit.localization import LocalizedTool
from ...languages import Locale
from ...workbench import WorkbenchError


class WorkbenchTexts(Struct, frozen=True, kw_only=True):
    title: str
    instructions: str
    bubblewrap: str
    landlock: str
    limits: str
    with_network: str
    without_network: str
    no_box: str
    files_title: str
    files_description: str
    # Results
    session: str
    sandbox: str
    written: str
    binary: str
    stderr: str
    files: str
    images: str
    more_rows: str
    all_output: str
    exit_code: str
    nothing: str
    # How code ended
    interrupted: str
    timed_out: str
    too_much_output: str
    out_of_memory: str
    out_of_disk: str
    ended: str
    kept: str
    lost: str
    # Problems
    no_sandbox: str
    no_content: str
    no_base64: str
    missing: str
    not_a_file: str
    exists: str
    outside: str
    denied: str
    too_large: str
    full: str
    no_session: str
    too_many: str
    busy: str
    unavailable: str
    invalid: str

    def explain(self, error: WorkbenchError) -> str:
        sentence: str = getattr(self, error.code)
        return sentence.format(subject=error.subject[:200], why=error.message)


_ENGLISH = WorkbenchTexts(
    title="Workbench",
    instructions=(
        "Runs Python and shell commands in a box of your own. Variables live on from cell to cell and "
        "files in /home/user from session to session; a cell may take {} seconds. Only what a cell "
        "prints, its last value, tables, pictures and file names come back, so load, filter and join big "
        "data there. run_tool(name, **arguments) inside a cell calls one of your tools and returns its "
        "data."
    ),
    bubblewrap=(
        "Code runs under bubblewrap: in namespaces of its own, without capabilities, with its own file "
        "system."
    ),
    landlock=(
        "Code runs under Landlock: it sees the system's programs and its own folder, and has limits, but "
        "shares the system's namespaces."
    ),
    limits="Code runs with limits only. It can read and change every file of this user.",
    with_network="It reaches public web addresses through a proxy (HTTP and HTTPS).",
    without_network="It has no network.",
    no_box=(
        "no box works for the workbench ({}); hint: install bubblewrap if it is missing (apt-get install "
        'bubblewrap), or set box = "limits" if you trust all code that will run, since it protects no files'
    ),
    files_title="Files of the workbench",
    files_description="A file of your workbench, by its path below /home/user.",
    session="Variables of this session live on. The box is {}.",
    sandbox="Sandbox {} is ready.",
    written="Wrote {} bytes to {}.",
    binary="{} is a binary file: {} bytes, {}. Its content is in the structured content, as base64.",
    stderr="stderr:",
    files="Files written: {}",
    images="Pictures: {}, below.",
    more_rows="({} more rows)",
    all_output="Everything that was printed is in {}.",
    exit_code="Exit code: {}",
    nothing="Done; it printed nothing.",
    interrupted="Interrupted.",
    timed_out="Stopped because its time was over.",
    too_much_output="Stopped because it printed more than {} bytes.",
    out_of_memory="Ended because its processes used more than {} bytes of memory.",
    out_of_disk="Stopped because it wrote too much: {}.",
    ended="The process of the session ended: {}.",
    kept="Variables are kept.",
    lost="The session's variables are lost; files are kept.",
    no_sandbox="There is no sandbox {!r}; it may have ended. Create one, or leave sandbox_id out.",
    no_content=(
        "'file' has no content here: a key of Composio's storage exists there only. Give content_base64, "
        "or use CODEINTERPRETER_WRITE_FILE_CMD."
    ),
    no_base64="The content is not base64: {}.",
    missing="There is no file {subject!r} in the workbench.",
    not_a_file="{subject!r} is not a file.",
    exists="{subject!r} exists already. Set overwrite to replace it.",
    outside="{subject!r} cannot be used: files of the workbench are below /home/user. ({why})",
    denied="Not permitted: {why}.",
    too_large="{subject!r} is too large: {why}.",
    full="No room for {subject!r}: {why}",
    no_session="{why}. Use letters, digits and _ . : - for a session_id.",
    too_many="Too many sessions are running code; try again in a while. ({why})",
    busy="Session {subject!r} is running the code that asks for it. Name another session_id.",
    unavailable="The workbench is not available: {why}.",
    invalid="{why}.",
)

_PORTUGUESE = WorkbenchTexts(
    title="Bancada",
    instructions=(
        "Executa Python e comandos do shell em uma caixa só sua. As variáveis permanecem de célula em "
        "célula e os arquivos em /home/user de sessão em sessão; uma célula pode levar {} segundos. Só "
        "volta o que a célula imprime, seu último valor, tabelas, imagens e nomes de arquivos; carregue, "
        "filtre e junte lá os dados grandes. run_tool(nome, **argumentos) dentro de uma célula chama uma "
        "de suas ferramentas e devolve os dados."
    ),
    bubblewrap=(
        "O código roda sob bubblewrap: em namespaces próprios, sem capabilities, com um sistema de "
        "arquivos próprio."
    ),
    landlock=(
        "O código roda sob Landlock: vê os programas do sistema e sua própria pasta, e tem limites, mas "
        "partilha os namespaces do sistema."
    ),
    limits="O código roda só com limites. Pode ler e alterar todos os arquivos deste usuário.",
    with_network="Alcança endereços públicos da web por um proxy (HTTP e HTTPS).",
    without_network="Não tem rede.",
    no_box=(
        "nenhuma caixa funciona para a bancada ({}); dica: instale o bubblewrap, se faltar (apt-get install "
        'bubblewrap), ou defina box = "limits" se confia em todo o código que vai rodar, pois ela não '
        "protege arquivos"
    ),
    files_title="Arquivos da bancada",
    files_description="Um arquivo da sua bancada, pelo caminho abaixo de /home/user.",
    session="As variáveis desta sessão permanecem. A caixa é {}.",
    sandbox="A sandbox {} está pronta.",
    written="Gravados {} bytes em {}.",
    binary="{} é um arquivo binário: {} bytes, {}. O conteúdo está no conteúdo estruturado, em base64.",
    stderr="stderr:",
    files="Arquivos gravados: {}",
    images="Imagens: {}, abaixo.",
    more_rows="(mais {} linhas)",
    all_output="Tudo o que foi impresso está em {}.",
    exit_code="Código de saída: {}",
    nothing="Pronto; não imprimiu nada.",
    interrupted="Interrompido.",
    timed_out="Parado porque o tempo acabou.",
    too_much_output="Parado porque imprimiu mais de {} bytes.",
    out_of_memory="Encerrado porque seus processos usaram mais de {} bytes de memória.",
    out_of_disk="Parado porque gravou demais: {}.",
    ended="O processo da sessão terminou: {}.",
    kept="As variáveis foram mantidas.",
    lost="As variáveis da sessão se perderam; os arquivos foram mantidos.",
    no_sandbox="Não há sandbox {!r}; pode ter terminado. Crie uma, ou omita sandbox_id.",
    no_content=(
        "'file' não tem conteúdo aqui: uma chave do armazenamento da Composio só existe lá. Dê "
        "content_base64, ou use CODEINTERPRETER_WRITE_FILE_CMD."
    ),
    no_base64="O conteúdo não é base64: {}.",
    missing="Não há o arquivo {subject!r} na bancada.",
    not_a_file="{subject!r} não é um arquivo.",
    exists="{subject!r} já existe. Use overwrite para substituir.",
    outside="{subject!r} não pode ser usado: os arquivos da bancada ficam abaixo de /home/user. ({why})",
    denied="Não permitido: {why}.",
    too_large="{subject!r} é grande demais: {why}.",
    full="Não há espaço para {subject!r}: {why}",
    no_session="{why}. Use letras, dígitos e _ . : - em session_id.",
    too_many="Há sessões demais executando código; tente daqui a pouco. ({why})",
    busy="A sessão {subject!r} está executando o código que a pede. Use outro session_id.",
    unavailable="A bancada não está disponível: {why}.",
    invalid="{why}.",
)


def texts_of(locale: Locale) -> WorkbenchTexts:
    return _ENGLISH if locale == "en" else _PORTUGUESE


_STEPS_EN = {
    "thought": "Why you run this; for logs only.",
    "current_step": "Name of the current step; for logs only.",
    "current_step_metric": "Progress such as '3/10 mails'; for logs only.",
    "next_step": "Name of the next step; for logs only.",
}
_STEPS_PT = {
    "thought": "Por que executa isto; só para registro.",
    "current_step": "Nome do passo atual; só para registro.",
    "current_step_metric": "Progresso, como '3/10 e-mails'; só para registro.",
    "next_step": "Nome do próximo passo; só para registro.",
}

WORKBENCH = (
    LocalizedTool(
        name="REMOTE_WORKBENCH",
        title="Run Python",
        description=(
            "Runs Python in your workbench, like a cell of a notebook: variables live on, the value of "
            "the last expression comes back, tables of pandas and figures of matplotlib are shown. Files "
            "are in /home/user. run_tool(name, **arguments) calls one of your tools and returns its data, "
            "so that only what you print is read by the model. Use it for loops, joins and big "
            "intermediate results."
        ),
        parameters={
            "code_to_execute": "Python code. `await` works outside of functions.",
            "session_id": "A session of yours, with its own variables; left out: that of the conversation.",
            "file_path": "Accepted for compatibility; not used.",
            "timeout": "Seconds that it may run; the server's limit still holds.",
            **_STEPS_EN,
        },
    ),
    LocalizedTool(
        name="REMOTE_WORKBENCH",
        title="Executar Python",
        description=(
            "Executa Python na sua bancada, como uma célula de notebook: as variáveis permanecem, o valor "
            "da última expressão volta, tabelas do pandas e figuras do matplotlib são mostradas. Os "
            "arquivos ficam em /home/user. run_tool(nome, **argumentos) chama uma de suas ferramentas e "
            "devolve os dados, de modo que o modelo só lê o que você imprime. Use para laços, junções e "
            "resultados intermediários grandes."
        ),
        parameters={
            "code_to_execute": "Código Python. `await` funciona fora de funções.",
            "session_id": "Uma sessão sua, com variáveis próprias; omitida: a da conversa.",
            "file_path": "Aceito por compatibilidade; não é usado.",
            "timeout": "Segundos que pode rodar; o limite do servidor continua valendo.",
            **_STEPS_PT,
        },
    ),
)

BASH = (
    LocalizedTool(
        name="REMOTE_BASH_TOOL",
        title="Run a shell command",
        description=(
            "Runs a command with bash in your workbench, in the folder of the session. Returns stdout, "
            "stderr and the exit code. Processes that it leaves running end with the session."
        ),
        parameters={
            "command": "The command, as for `bash -c`.",
            "session_id": "A session of yours; left out: that of the conversation.",
        },
    ),
    LocalizedTool(
        name="REMOTE_BASH_TOOL",
        title="Executar um comando do shell",
        description=(
            "Executa um comando com bash na sua bancada, na pasta da sessão. Devolve stdout, stderr e o "
            "código de saída. Processos que ficam rodando terminam com a sessão."
        ),
        parameters={
            "command": "O comando, como em `bash -c`.",
            "session_id": "Uma sessão sua; omitida: a da conversa.",
        },
    ),
)

CREATE = (
    LocalizedTool(
        name="CODEINTERPRETER_CREATE_SANDBOX",
        title="Create a sandbox",
        description="Starts a session with variables of its own, and returns its id as sandbox_id.",
        parameters={"keep_alive": "Seconds that it stays without use, up to 3600."},
    ),
    LocalizedTool(
        name="CODEINTERPRETER_CREATE_SANDBOX",
        title="Criar uma sandbox",
        description="Inicia uma sessão com variáveis próprias, e devolve seu id como sandbox_id.",
        parameters={"keep_alive": "Segundos que ela fica sem uso, até 3600."},
    ),
)

_SANDBOX_EN = "The sandbox_id of a sandbox; left out: the session of the conversation."
_SANDBOX_PT = "O sandbox_id de uma sandbox; omitido: a sessão da conversa."

EXECUTE = (
    LocalizedTool(
        name="CODEINTERPRETER_EXECUTE_CODE",
        title="Run Python in a sandbox",
        description=(
            "Runs Python in a sandbox. Variables live on; the value of the last expression, tables, "
            "pictures and files come back. run_tool(name, **arguments) calls one of your tools."
        ),
        parameters={
            "code_to_execute": "Python code.",
            "sandbox_id": _SANDBOX_EN,
            "timeout": "Seconds that it may run.",
            "keep_alive": "Seconds that the sandbox stays without use, up to 3600.",
        },
    ),
    LocalizedTool(
        name="CODEINTERPRETER_EXECUTE_CODE",
        title="Executar Python em uma sandbox",
        description=(
            "Executa Python em uma sandbox. As variáveis permanecem; voltam o valor da última expressão, "
            "tabelas, imagens e arquivos. run_tool(nome, **argumentos) chama uma de suas ferramentas."
        ),
        parameters={
            "code_to_execute": "Código Python.",
            "sandbox_id": _SANDBOX_PT,
            "timeout": "Segundos que pode rodar.",
            "keep_alive": "Segundos que a sandbox fica sem uso, até 3600.",
        },
    ),
)

TERMINAL = (
    LocalizedTool(
        name="CODEINTERPRETER_RUN_TERMINAL_CMD",
        title="Run a command in a sandbox",
        description="Runs a command with bash in a sandbox. Returns stdout, stderr and the exit code.",
        parameters={
            "command": "The command, as for `bash -c`.",
            "sandbox_id": _SANDBOX_EN,
            "timeout": "Seconds that it may run.",
            "keep_alive": "Seconds that the sandbox stays without use, up to 3600.",
        },
    ),
    LocalizedTool(
        name="CODEINTERPRETER_RUN_TERMINAL_CMD",
        title="Executar um comando em uma sandbox",
        description="Executa um comando com bash em uma sandbox. Devolve stdout, stderr e o código de saída.",
        parameters={
            "command": "O comando, como em `bash -c`.",
            "sandbox_id": _SANDBOX_PT,
            "timeout": "Segundos que pode rodar.",
            "keep_alive": "Segundos que a sandbox fica sem uso, até 3600.",
        },
    ),
)

GET_FILE = (
    LocalizedTool(
        name="CODEINTERPRETER_GET_FILE_CMD",
        title="Read a file of a sandbox",
        description="Reads a file below /home/user: text as it is, anything else as base64.",
        parameters={
            "file_path": "The path, such as /home/user/report.html.",
            "sandbox_id": _SANDBOX_EN,
            "timeout": "Accepted for compatibility; not used.",
        },
    ),
    LocalizedTool(
        name="CODEINTERPRETER_GET_FILE_CMD",
        title="Ler um arquivo de uma sandbox",
        description="Lê um arquivo abaixo de /home/user: texto como está, o resto em base64.",
        parameters={
            "file_path": "O caminho, como /home/user/relatorio.html.",
            "sandbox_id": _SANDBOX_PT,
            "timeout": "Aceito por compatibilidade; não é usado.",
        },
    ),
)

UPLOAD = (
    LocalizedTool(
        name="CODEINTERPRETER_UPLOAD_FILE_CMD",
        title="Put a file into a sandbox",
        description="Writes a file below /home/user, as a whole or not at all.",
        parameters={
            "destination_path": "The path, such as /home/user/data.csv.",
            "file": "The file: name, mimetype and content_base64.",
            "sandbox_id": _SANDBOX_EN,
            "overwrite": "Replace a file that is there.",
        },
    ),
    LocalizedTool(
        name="CODEINTERPRETER_UPLOAD_FILE_CMD",
        title="Pôr um arquivo em uma sandbox",
        description="Grava um arquivo abaixo de /home/user, inteiro ou não grava.",
        parameters={
            "destination_path": "O caminho, como /home/user/dados.csv.",
            "file": "O arquivo: name, mimetype e content_base64.",
            "sandbox_id": _SANDBOX_PT,
            "overwrite": "Substituir um arquivo que já existe.",
        },
    ),
)

WRITE = (
    LocalizedTool(
        name="CODEINTERPRETER_WRITE_FILE_CMD",
        title="Write a file in a sandbox",
        description="Writes text, or bytes as base64, to a file below /home/user, as a whole or not at all.",
        parameters={
            "file_path": "The path, such as /home/user/notes.md.",
            "content": "The text, or base64.",
            "encoding": "`base64` if the content is bytes.",
            "sandbox_id": _SANDBOX_EN,
            "overwrite": "Replace a file that is there.",
        },
    ),
    LocalizedTool(
        name="CODEINTERPRETER_WRITE_FILE_CMD",
        title="Gravar um arquivo em uma sandbox",
        description="Grava texto, ou bytes em base64, em um arquivo abaixo de /home/user, inteiro ou nada.",
        parameters={
            "file_path": "O caminho, como /home/user/notas.md.",
            "content": "O texto, ou base64.",
            "encoding": "`base64` se o conteúdo são bytes.",
            "sandbox_id": _SANDBOX_PT,
            "overwrite": "Substituir um arquivo que já existe.",
        },
    ),
)
