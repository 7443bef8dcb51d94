"""The fixed word lists of search, without accents."""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _set(
    """
    a about above after again also am an and any are as at be been being but by can could did do does
    doing for from had has have having he her here him his how i if in into is it its just like me more
    most my need no not of once only or other our own please she should so some such than that the their
    them then there these they this those through to too until us very want was we were what when where
    which while who whom why will with would you your provide using use used let know give given tell show
    help get able m s t ve re ll d o os um uma uns umas de da dos das em na nos nas ao aos pelo pela pelos
    pelas por para pra pro com sem que e ou se mas meu minha meus minhas seu sua seus suas este esta isto
    esse essa isso ele ela eles elas eu tu voce nao sim ja ser estar quero preciso favor
    """
)
"""Words without meaning for search. On, off, up and out are not among them: they are part of verbs."""

ENGLISH = _set(
    """
    the of to and in is for on with that my what how are from this it at by an be or i please all can you
    your need want which where when would could should will have has there their its not out off up
    """
)
FUNCTION_WORDS = {
    "pt": _set(
        """
        o os um uma uns de da dos das em na nos nas ao aos para pra por com que se qual quais quantos quantas
        quanto quanta meu minha meus minhas todos todas nao esta estao sao foi como onde quando mais pelo pela
        esse essa este muito tem sobre isso ate ja ou seu sua seus suas voce eu ele ela diz hoje amanha
        """
    ),
    "es": _set(
        """
        el la los las lo del al un una unos unas de en y con por para que se su sus mi mis este esta
        esto estos
        estas ese esa eso ya esta estan estoy cual cuales cuanto cuantos cuanta cuantas quien donde
        cuando como
        hay muy pero sin hoy ayer todos todas nuestro nuestra nos les le te ti tu tus soy es son ha han he fue
        """
    ),
    "fr": _set(
        """
        le la les un une des du de et est que qui se ce cet cette ces mon ma mes ton ta tes sa ses notre nos
        votre vos leur leurs je il elle nous vous ils en au aux dans avec par sans quel quelle quels quelles
        combien ou quand comment pas ne plus tres mais deja aujourd hui moi toi lui cela quoi y suis sont
        """
    ),
    "de": _set(
        """
        der das den dem des ein eine einen einem einer eines und ist sind von zu zum zur mit bei auf
        fur im vom
        beim nach uber unter ich du er sie es wir ihr mein meine meinen meinem meiner dein deine unser unsere
        welche welcher welches wie wo wer wann nicht kein keine keinen mir mich uns dich bitte mal noch schon
        heute gibt dass ob wenn ins aus
        """
    ),
}
EITHER = {
    "pt": _set("a do no as e me"),
    "es": _set("a me no y"),
    "fr": _set("a on son me pour sur"),
    "de": _set("die was in an am so hat war man will also"),
}
"""Function words that tell a text's language; those in EITHER are also English."""
OTHER_STOP_WORDS = {
    "es": FUNCTION_WORDS["es"]
    | _set("e o u no ni si ser estar tengo quiero puedes puedo favor hace hacer algo"),
    "fr": FUNCTION_WORDS["fr"]
    | EITHER["fr"]
    | _set("d l s c j m t n qu ai as avons avez ont etre avoir veux peux si ni a fait t il"),
    "de": FUNCTION_WORDS["de"]
    | EITHER["de"]
    | _set("haben habe hast kann kannst soll will wird werden sein bin da hier da nur auch als hier"),
}
"""Words without meaning in a request of that language; some are words in English."""

READS = _set(
    """
    find search list get show read view check look lookup see fetch retrieve query browse inspect describe
    count what which who whose where when how tell know summarize compare recent latest last newest current
    currently now history overview buscar busca busque procurar procura procure listar lista liste ver veja
    mostrar mostra mostre ler leia consultar consulta consulte verificar verifica verifique encontrar
    encontre obter obtenha qual quais quem onde quando quanto quanta quantos quantas resumir resuma
    comparar recente recentes ultimo ultima ultimos ultimas atual atuais agora historico
    """
)
QUESTIONS = _set(
    """
    what which who whose where when is are was were does did has have qual quais quem onde quando quanto
    quanta quantos quantas
    """
)
HOW_TO = _set("to do does can could should would may might i we you")
"""After "how": the words that ask for a way to do something."""

WRITES = _set(
    """
    delete remove drop erase purge wipe destroy cancel create add insert write update edit modify rename
    send publish upload replace revoke uninstall kill terminate truncate discard unsubscribe rid overwrite
    append install deploy disable enable unlink detach attach assign merge apagar apaga apague excluir
    exclui exclua deletar deleta delete remover remova remove limpar limpa limpe cancelar cancela cancele
    criar cria crie adicionar adiciona adicione inserir insere insira atualizar atualiza atualize editar
    edita edite alterar altera altere mudar muda mude enviar envia envie publicar publica publique salvar
    salva salve substituir substitui substitua revogar encerrar eliminar elimina descartar instalar instala
    instale renomear renomeia mover mova escrever escreve escreva anexar anexa anexe
    """
)
MAY_WRITE = _set(
    """
    post store set stop change move make record clear clean save reset close archive schedule book order
    format turn start run execute fix commit push stage unstage switch remember memorize forget put lembrar
    lembra lembre esquecer esquece esqueca guardar guarda guarde fechar fecha feche parar fazer faz faca
    """
)
ACTS = _set(
    """
    accept activate align analyze apply approve ask authorize backup ban block build buy cache calculate
    call checkout choose click clone collect combine comment compile complete compress compute
    configure confirm connect convert copy crop decline decode decrypt define design download drag draw
    duplicate encode encrypt evaluate expand export extend extract file fill flag follow forward generate
    give grant group hide hover import increase initialize invite join keep launch leave link lock log login
    logout lower manage mark message mount mute notify open organize pause pay perform pick pin plan play
    press prepare print process produce promote protect provision pull raise react rebase reboot redirect
    register reject release reload remind reply report request reserve resize resolve restart restore resume
    retry return review revert rollback rotate scale screenshot share shut sign simulate skip solve sort
    split star submit subscribe swap sync tag take test toggle track train transcribe transfer transform
    transition translate trigger tune type undo unlock unmute unpin unstar upgrade upsert validate
    ativar ative configurar configure converter converta desativar gerar gere traduzir traduza calcular
    calcule carregar carregue baixar baixe agendar agende marcar marca marque aprovar aprove colocar coloca
    coloque botar bota tirar tira tire abrir abre abra executar execute rodar roda rode iniciar inicie
    reiniciar reinicie ligar liga ligue desligar desliga desligue tocar toca toque transcrever transcreva
    mandar manda mande avisar avisa avise
    """
)
"""These lists tell whether a request only reads. A request that begins with a question word reads. A word of
WRITES decides anywhere; of the others, which may also be nouns, the first decides. ACTS neither read nor
clearly write."""

NEITHER = _set("run execute start format order book record turn")
"""Words that do not tell whether a tool changes something, as in `run_query`."""

DESTROYS = _set(
    """
    delete remove drop destroy purge wipe erase truncate kill terminate uninstall revoke apagar excluir
    remover deletar eliminar limpar
    """
)
"""Words that mark a tool as destructive if it has no `destructiveHint`."""

HEAVY = _set("dump export backup everything bulk crawl entire raw exportar")
WHOLE = _set("all full complete todos todas completo")
TAKES = _set("list get fetch read show query find download load select listar buscar obter consultar")
"""A name with a word of HEAVY, or with words of both WHOLE and TAKES, promises big results."""

LIGHT = _set(
    """
    today tomorrow yesterday tonight now week weekend month quarter year
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december last next past previous ago since until before after during latest
    recent recently currently later soon yet still already ever good best big long something someone
    anyone everyone somebody anybody nothing thing stuff way lot bit
    really actually maybe quick quickly automatically want going happen happening happened
    """
)
"""Words that say when, how much or how, and seldom which tool; they count for little in a request."""

PLAIN_VERBS = _set(
    """
    add cancel close create delete describe draft drop edit execute fetch find get insert list lookup
    manage modify move navigate post query read remove rename replace retrieve run search send set show
    start stop update upsert write
    """
)
"""Verbs that tools are named by, more than things are."""

NOUNS = _set(
    """
    alert all answer book build call change check close command comment commit display draft email end
    export file format history import index info label list log mail match merge message monitor move
    new note open order place plan play post press push query record reply report review search set
    share stage start status stop store switch tag test text track turn type update view watch
    """
)
"""Verbs that are nouns or adjectives just as well: they tell only at the beginning of a clause."""

AND = _set(
    """
    also and dann depois e et luego puis then und y
    """
)

POLITE = _set(
    """
    also and can could d for got have help hey hi i just let lets like ll me must my need now ok okay
    please should so the then to us want we would you
    """
)

NEGATIONS = _set(
    """
    doesn don dont kein nao ne never nicht no not nunca ohne pas sans sem sin without
    """
)

UNTIL = _set(
    """
    an at dans em en im in of on que that the um uma un una which with
    """
)
"""Words behind which a negation no longer reaches a verb."""

PLACE_WORDS = _set(
    """
    at auf dans em en from im in inside na nas no nos on sur under within
    """
)
"""Prepositions of place."""

ARTICLES = _set(
    """
    a an das dem den der die el esta este her his its la las le les los ma meinem meiner meu mi minha
    mon my o our that the this um uma un una your
    """
)

SYNONYMS = {
    word: tuple(others.split())
    for line in """
    remember memorize recall: memory
    forget: memory delete
    folder: directory
    directory: folder
    photo picture pic screenshot: image
    snapshot: screenshot
    erase wipe rid trash discard: delete
    webpage website site web: url web
    page: url
    link: url
    history: log
    mail inbox mailbox: email
    unread: email
    dm chat ping: message
    reply: message respond
    tell: message
    meeting appointment: event calendar
    calendar agenda: event
    busy available availability slot: freebusy calendar
    reminder remind: task reminder
    todo chore: task
    ticket bug: issue
    issue: ticket
    pr: pull request
    mr: merge request
    repo: repository
    pods deployment k8s: kubernetes
    doc docs: documentation document
    manual: documentation
    spreadsheet: excel sheet workbook
    workbook: spreadsheet
    slides slide deck: presentation
    document: doc
    docx: word document
    xlsx: excel workbook
    pptx: powerpoint presentation
    rain raining sunny snow umbrella temperature forecast hot cold: weather
    weather: forecast
    stock shares: ticker price
    charge: payment
    bill: invoice
    song music track album artist: playlist play
    movie film: video
    direction directions route drive walk bike: directions route distance
    nearby near restaurant cafe: place local
    place: location
    customer client: contact
    person people: contact user
    coworker colleague teammate: user member
    oncall: schedule
    alert: alarm
    alarm: alert
    mute: silence
    crash crashing crashed failing: error logs
    exception: error
    slow: performance
    program app: application process
    terminal shell: command process
    console: logs
    package library: dependency
    postpone delay: reschedule update
    rename: move
    done: complete
    big bigger biggest large larger largest: size
    buy purchase: order
    flight: travel
    news headline headlines: news
    definition meaning: dictionary
    chart graph plot: chart
    lamp lights bulb: light
    heating heat: thermostat climate
    """.strip().splitlines()
    for words, _, others in (line.partition(":"),)
    for word in words.split()
}
"""Words of users, and the words of tools for the same. Other languages are put into English first."""
PLURAL_SYNONYMS = {"commits": ("log",)}
"""The same for words that mean something else in the singular: who says "commit" wants to make one."""
