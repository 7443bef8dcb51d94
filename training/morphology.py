"""The forms in which a Portuguese verb gives an order or tells what is: enough to know them for one verb.

Without accents, as the search sees words. Regular verbs by rule, the irregular ones by hand.
"""

_ENDINGS = {
    "ar": "ar a e as es o am em ando ado ada ados adas ou ei amos emos aste ava arei ara aria ares",
    "er": "er e a es as o em am endo ido ida idos idas eu i emos amos este ia erei era eria eres",
    "ir": "ir e a es as o em am indo ido ida idos idas iu i imos amos iste ia irei ira iria ires",
}
# What a stem's last letters become before the other kind of vowel, so that the sound stays.
_BEFORE_E = (("c", "qu"), ("g", "gu"), ("ç", "c"))
_BEFORE_A = (("qu", "c"), ("gu", "g"), ("c", "c"), ("g", "j"))

_IRREGULAR = {
    "por": "por poe ponha pos puser pondo posto posta postos postas poem ponham",
    "fazer": "fazer faz faca faco fez fiz fazendo feito feita feitos feitas fazem facam",
    "dizer": "dizer diz diga digo disse dizendo dito digam",
    "trazer": "trazer traz traga trago trouxe trazendo",
    "ver": "ver ve veja vejo viu vi vendo visto vista vistos vistas veem vejam",
    "ler": "ler le leia leio leu li lendo lido lida lidos lidas leem leiam",
    "ir": "ir vai va vou foi indo vamos",
    "dar": "dar da de dou deu dando dado dada",
    "ter": "ter tem tenha tenho teve tendo tido",
    "manter": "manter mantem mantenha mantenho manteve mantendo mantido mantida",
    "obter": "obter obtem obtenha obtenho obteve obtendo obtido obtida obtidos obtidas",
    "pedir": "pedir pede peca peco pediu pedindo pedido pedida",
    "medir": "medir mede meca meco mediu medindo medido medida",
    "ouvir": "ouvir ouve ouca ouco ouviu ouvindo ouvido",
    "subir": "subir sobe suba subo subiu subindo subido subida",
    "seguir": "seguir segue siga sigo seguiu seguindo seguido seguida",
    "repetir": "repetir repete repita repito repetiu repetindo repetido",
    "preferir": "preferir prefere prefira prefiro preferiu preferido",
    "inserir": "inserir insere insira insiro inseriu inserindo inserido inserida",
    "transferir": "transferir transfere transfira transfiro transferiu transferindo transferido transferida",
    "sugerir": "sugerir sugere sugira sugiro sugeriu sugerindo sugerido",
    "descobrir": "descobrir descobre descubra descubro descobriu descobrindo descoberto descoberta",
    "abrir": "abrir abre abra abres abro abriu abrindo aberto aberta abertos abertas abrem abram",
    "escrever": "escrever escreve escreva escrevo escreveu escrevendo escrito escrita escritos escritas",
    "reproduzir": "reproduzir reproduz reproduza reproduzo reproduziu reproduzindo reproduzido reproduzida",
    "reduzir": "reduzir reduz reduza reduzo reduziu reduzindo reduzido reduzida",
    "traduzir": "traduzir traduz traduza traduzo traduziu traduzindo traduzido traduzida",
    "excluir": "excluir exclui exclua excluo excluindo excluido excluida excluidos excluidas",
    "incluir": "incluir inclui inclua incluo incluindo incluido incluida incluidos incluidas",
    "concluir": "concluir conclui conclua concluo concluindo concluido concluida",
    "diminuir": "diminuir diminui diminua diminuo diminuindo diminuido diminuida",
    "ligar": "ligar liga ligue ligas ligues ligo ligam liguem ligando ligado ligada ligados ligadas ligou",
}


def forms(infinitive: str) -> list[str]:
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive].split()
    stem, ending = infinitive[:-2], infinitive[-2:]
    if len(stem) < 2 or ending not in _ENDINGS:
        return []
    return list(dict.fromkeys(_joined(stem, ending, last) for last in _ENDINGS[ending].split()))


def _joined(stem: str, ending: str, last: str) -> str:
    """Without accents ç is c, so -car may be either: the commoner `qu` is taken for it."""
    if ending == "ar" and last[0] in "ei":
        for old, new in _BEFORE_E:
            if stem.endswith(old):
                return stem[: -len(old)] + new + last
    if ending != "ar" and last[0] in "ao":
        for old, new in _BEFORE_A:
            if stem.endswith(old):
                return stem[: -len(old)] + new + last
    return stem + last
