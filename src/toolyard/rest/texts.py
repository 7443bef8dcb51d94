"""The engine's own messages for the model, in each language. Messages of a definition take precedence."""

from msgspec import Struct

from ..languages import Locale


class RestTexts(Struct, frozen=True, kw_only=True):
    statuses: dict[str, str]
    """By status or class; `{detail}` is the API's own message, `{status}` the number."""
    unreachable: str
    broken: str
    """The connection broke after the request may have arrived."""
    doubt: str
    slow: str
    large: str
    many: str
    garbled: str
    not_json: str
    redirected: str
    missing_key: str
    wait: str
    done: str
    needs: str
    id_list: str
    ids_most: str
    empty: str
    unusable: str
    not_found: str
    there_are: str
    ambiguous: str
    without_id: str
    no_list: str
    list_cut: str
    """The list is longer than the part that was read."""
    found_so_far: str
    looking_needs: str
    looking_one: str
    whole_number: str
    file_form: str
    file_base64: str
    file_empty: str
    file_large: str
    file_name: str
    files_most: str
    file_content: str
    file_filename: str
    cursor: str
    cursor_elsewhere: str
    next_part: str
    page_number: str
    items_skipped: str
    part_size: str
    all_count: str
    pass_as: str
    more_exist: str
    reasons: dict[str, str] = {}
    """Translations of reasons why there is no response."""


ENGLISH = RestTexts(
    statuses={
        "401": "The API did not accept the key (401). Check that it is valid and not expired. {detail}",
        "403": "The key is not allowed to do this (403). {detail}",
        "404": "Not found (404): there is nothing with that id, or the key may not see it. {detail}",
        "415": "The API does not accept this content type (415). {detail}",
        "422": "The API refused the values (422): {detail}",
        "429": "Too many requests (429): wait a little, then try again. {detail}",
        "4xx": "The API refused the request ({status}). {detail}",
        "5xx": "The API failed ({status}); the request is not at fault. Try again later. {detail}",
        "xxx": "The API answered with status {status}, which cannot be used here. {detail}",
    },
    unreachable="The API cannot be reached: {reason}. Nothing was sent.",
    broken="The connection to the API broke: {reason}.",
    doubt="The request may have been carried out: check before you repeat it.",
    slow="The API did not answer within {seconds} seconds.",
    large="The API's response is larger than {limit} bytes. Ask for less: fewer items, or a narrower filter.",
    many="The API's response has more than {limit} values. Ask for less: fewer items, or a narrower filter.",
    garbled="The API's response is malformed: {reason}.",
    not_json="The API answered with {kind} instead of JSON (status {status}): "
    "check the base URL and any proxy.",
    redirected="The API redirects ({status}, to {place}); redirects are not followed. Check the base URL.",
    missing_key="There is no key for the API. Give it in: {ways}.",
    wait="It asks to wait {seconds} seconds.",
    done="Done.",
    needs="One of these is needed: {names}.",
    id_list="{name!r} must be whole numbers with commas between them, not {value!r}.",
    ids_most="{name!r} takes {most} ids at most, and there are {count}. Split the request.",
    empty="{name!r} must not be empty.",
    unusable="{name!r} has characters that cannot be sent: {value!r}.",
    not_found="There is no {what} called {name!r}.",
    there_are=" There are: {names}.",
    ambiguous="Several items match the {what} {name!r}: {names}. Give the id instead.",
    without_id="The {what} {name!r} exists, but the API does not give its {id!r}. Give the id instead.",
    no_list="The {what} {name!r} cannot be looked up: the API did not answer with a list of objects "
    "that have {fields}. Give the id instead.",
    list_cut="Cannot tell which {what} is {name!r}: only the first {count} items were read, and "
    "there are more. Give the id instead.",
    found_so_far=" Among those: {names}.",
    looking_needs="To find the {what} {name!r}, give {needs!r} too.",
    looking_one="To find the {what} {name!r}, {needs!r} must be exactly one id.",
    whole_number="{name!r} must be a whole number, {least} or more.",
    file_form="{name}[{index}] must have 'content' (base64) and 'filename'.",
    file_base64="{name}[{index}] ({file!r}): 'content' is not base64.",
    file_empty="{name}[{index}] ({file!r}) is empty.",
    file_large="{name}[{index}] ({file!r}) has {size} bytes; {most} are allowed.",
    file_name="{name}[{index}]: 'filename' must be a plain name without folders or quotes, not {file!r}.",
    files_most="{name!r} takes {most} files at most, and there are {count}.",
    file_content="The file's bytes as base64",
    file_filename="Its name with extension, without folders",
    cursor="{name!r} is not a cursor from this tool, or no longer valid. Leave it out for the first page.",
    cursor_elsewhere="{name!r} is from a call with other arguments. Repeat those, "
    "or leave it out for the first page.",
    next_part="The `next` of the previous page; leave out for the first",
    page_number="Page number",
    items_skipped="Items to skip",
    part_size="Items on one page",
    all_count="The number of all items",
    pass_as="Pass as `{name}` for more",
    more_exist="There are more items than were read",
)

PORTUGUESE = RestTexts(
    statuses={
        "401": "A API não aceitou a chave (401). Verifique se ela é válida e não expirou. {detail}",
        "403": "A chave não tem permissão para isto (403). {detail}",
        "404": "Não encontrado (404): não há nada com esse id, ou a chave não pode vê-lo. {detail}",
        "415": "A API não aceita este tipo de conteúdo (415). {detail}",
        "422": "A API recusou os valores (422): {detail}",
        "429": "Requisições demais (429): espere um pouco e tente de novo. {detail}",
        "4xx": "A API recusou a requisição ({status}). {detail}",
        "5xx": "A API falhou ({status}); a requisição não tem culpa. Tente mais tarde. {detail}",
        "xxx": "A API respondeu com o status {status}, que não serve aqui. {detail}",
    },
    unreachable="Não foi possível alcançar a API: {reason}. Nada foi enviado.",
    broken="A conexão com a API caiu: {reason}.",
    doubt="A requisição pode ter sido executada: verifique antes de repetir.",
    slow="A API não respondeu em {seconds} segundos.",
    large="A resposta da API passa de {limit} bytes. Peça menos: menos itens ou um filtro mais estreito.",
    many="A resposta da API tem mais de {limit} valores. Peça menos: menos itens ou um filtro mais estreito.",
    garbled="A resposta da API está malformada: {reason}.",
    not_json="A API respondeu com {kind} em vez de JSON (status {status}): "
    "verifique a URL base e um eventual proxy.",
    redirected="A API redireciona ({status}, para {place}); redirecionamentos não são seguidos. "
    "Verifique a URL base.",
    missing_key="Não há chave para a API. Informe-a em: {ways}.",
    wait="Ela pede para esperar {seconds} segundos.",
    done="Feito.",
    needs="É preciso informar um destes: {names}.",
    id_list="{name!r} deve ter números inteiros separados por vírgulas, não {value!r}.",
    ids_most="{name!r} aceita no máximo {most} ids, e há {count}. Divida a requisição.",
    empty="{name!r} não pode ficar vazio.",
    unusable="{name!r} tem caracteres que não podem ser enviados: {value!r}.",
    not_found="Não há {what} com o nome {name!r}.",
    there_are=" Há: {names}.",
    ambiguous="Vários itens correspondem a {what} {name!r}: {names}. Informe o id.",
    without_id="Há {what} com o nome {name!r}, mas a API não diz seu {id!r}. Informe o id.",
    no_list="Não se pode procurar {what} {name!r}: a API não respondeu com uma lista de objetos "
    "que tenham {fields}. Informe o id.",
    list_cut="Não se pode dizer qual {what} é {name!r}: só os primeiros {count} itens foram lidos, "
    "e há mais. Informe o id.",
    found_so_far=" Entre eles: {names}.",
    looking_needs="Para achar {what} {name!r}, informe também {needs!r}.",
    looking_one="Para achar {what} {name!r}, {needs!r} deve ter exatamente um id.",
    whole_number="{name!r} deve ser um número inteiro, {least} ou mais.",
    file_form="{name}[{index}] deve ter 'content' (base64) e 'filename'.",
    file_base64="{name}[{index}] ({file!r}): 'content' não é base64.",
    file_empty="{name}[{index}] ({file!r}) está vazio.",
    file_large="{name}[{index}] ({file!r}) tem {size} bytes; o máximo é {most}.",
    file_name="{name}[{index}]: 'filename' deve ser um nome simples, sem pastas nem aspas, não {file!r}.",
    files_most="{name!r} aceita no máximo {most} arquivos, e há {count}.",
    file_content="Os bytes do arquivo em base64",
    file_filename="Seu nome com extensão, sem pastas",
    cursor="{name!r} não é um cursor desta ferramenta, ou não vale mais. Omita-o para a primeira página.",
    cursor_elsewhere="{name!r} é de uma chamada com outros argumentos. Repita-os, "
    "ou omita-o para a primeira página.",
    next_part="O `next` da página anterior; omita para a primeira",
    page_number="Número da página",
    items_skipped="Itens a pular",
    part_size="Itens por página",
    all_count="O número de todos os itens",
    pass_as="Passe como `{name}` para ver mais",
    more_exist="Há mais itens do que os lidos",
    reasons={
        "connection refused": "conexão recusada",
        "its name is not known": "seu nome não é conhecido",
        "its certificate or TLS cannot be trusted": "seu certificado ou TLS não é confiável",
        "no connection": "sem conexão",
        "no connection in time": "sem conexão a tempo",
        "the connection was closed without a reply": "a conexão foi fechada sem resposta",
        "its JSON is damaged": "seu JSON está danificado",
        "the reply ended early": "a resposta terminou antes da hora",
        "the reply's compressed body is damaged": "o corpo compactado da resposta está danificado",
    },
)


def texts_for(locale: Locale) -> RestTexts:
    return PORTUGUESE if locale == "pt" else ENGLISH


def shortened(value: object, most: int = 80) -> str:
    """A caller's value, shortened for a message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
