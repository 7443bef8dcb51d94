"""The closed lists of words that search knows by heart, in English and Portuguese, without accents."""


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
"""Say nothing of what is wanted. On, off, up and out do: they are half of a verb."""

PORTUGUESE = _set(
    """
    o os um uma uns de da dos das em na nos nas ao aos para pra por com que se qual quais quantos quantas
    quanto quanta meu minha meus minhas todos todas nao esta estao sao foi como onde quando mais pelo pela
    esse essa este muito tem sobre isso ate ja ou seu sua seus suas voce eu ele ela diz hoje amanha
    """
)
ENGLISH = _set(
    """
    the of to and in is for on with that my what how are from this it at by an be or i please all can you
    your need want which where when would could should will have has there their its not out off up
    """
)
EITHER = _set("a do no as e me")
"""By these a text's language is told; the last are small words of Portuguese that English has too."""

READS = _set(
    """
    find search list get show read view check look lookup see fetch retrieve query browse inspect describe
    count what which who where when how tell know summarize compare buscar busca procurar procura listar
    lista ver mostrar mostra mostre ler consultar consulta verificar verifica qual quais quem onde quando
    quanto quantos quantas contar resumir comparar
    """
)
WRITES = _set(
    """
    delete remove drop erase purge wipe destroy cancel create add insert write update edit modify rename
    send publish upload replace revoke uninstall kill terminate truncate discard unsubscribe rid overwrite
    append install deploy disable enable unlink detach attach assign merge apagar apaga apague excluir
    exclua deletar remover remova remove limpar limpa limpe cancelar cancele criar crie adicionar adicione
    inserir insira atualizar atualize editar edite alterar altere mudar mude enviar envie publicar
    publique salvar salve substituir substitua revogar encerrar eliminar elimina descartar instalar
    renomear mover mova
    """
)
MAY_WRITE = _set(
    """
    post store set stop change move make record clear clean save reset close archive schedule book order
    format turn start run execute fix
    """
)
"""By these a request is known as one that only wants to know, or one that changes something. The last are
things as often as deeds."""

DESTROYS = _set(
    """
    delete remove drop destroy purge wipe erase truncate kill terminate uninstall revoke apagar excluir
    remover deletar eliminar limpar
    """
)
"""In the name of a tool that does not say itself whether it destroys."""

HEAVY = _set("dump export backup everything bulk crawl entire raw exportar")
WHOLE = _set("all full complete todos todas completo")
TAKES = _set("list get fetch read show query find download load select listar buscar obter consultar")
"""A name with one of the first, or one of the second beside one of the third, promises much to read."""
