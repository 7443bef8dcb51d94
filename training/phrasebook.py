"""Portuguese words for giving orders to tools and devices, of both countries, written down by us.

What the gathered sentences say seldom or in another sense: programs "apagam" files, people "apagam" lights.
Verbs by their infinitive (their forms follow by `morphology.py`), then everything else as it is said.
"""

VERBS = """
acender turn on light
apagar turn off delete erase
ligar turn on connect call
desligar turn off shut disconnect
ativar activate enable turn on
desativar disable deactivate turn off
abrir open
fechar close shut
trancar lock
destrancar unlock
bloquear lock block
desbloquear unlock
aumentar increase raise up
subir raise up increase upload
levantar raise lift get up
baixar lower down download
descer lower down
diminuir decrease lower reduce
reduzir reduce decrease lower
escurecer dim darken
clarear brighten
iluminar light brighten
regular set adjust
ajustar adjust set
definir set define
colocar set put place add
por put set play
meter put set
botar put set
mudar change switch
trocar change swap switch
alterar change modify update
parar stop
interromper stop interrupt
pausar pause
retomar resume continue
continuar continue resume
recomecar restart resume
reiniciar restart reboot
cancelar cancel
anular cancel void
eliminar delete remove
remover remove delete
excluir delete remove
limpar clean clear
aspirar vacuum clean
tirar remove take
criar create
adicionar add
acrescentar add
juntar add join merge
incluir include add
anotar note write add
marcar mark schedule book
agendar schedule book
lembrar remind remember
recordar remind
avisar notify warn alert
notificar notify
anunciar announce broadcast
transmitir broadcast stream transmit
despertar wake alarm
acordar wake
tocar play ring
reproduzir play
ouvir listen hear play
silenciar mute silence
calar mute silence
repetir repeat
saltar skip jump
pular skip jump
avancar next skip forward
voltar back return
mostrar show display
exibir show display
listar list
ver see view show
ler read
dizer tell say
contar count tell
consultar query check look
verificar check verify
conferir check
procurar search find
buscar search find fetch
pesquisar search
encontrar find
localizar locate find
obter get
pegar get take
trazer bring fetch
baixar download lower
descarregar download
transferir transfer download
carregar upload load charge
enviar send
mandar send
partilhar share
compartilhar share
publicar publish post
escrever write
redigir write draft
editar edit
atualizar update refresh
renomear rename
mover move
copiar copy
colar paste
guardar save store
salvar save
gravar record save
apresentar present show
resumir summarize summary
traduzir translate
converter convert
calcular calculate compute
comparar compare
reservar book reserve
comprar buy purchase
encomendar order
pedir order request ask
pagar pay
vender sell
telefonar call phone
chamar call
responder reply answer
perguntar ask
aquecer heat warm
arrefecer cool
esfriar cool
resfriar cool
ventilar ventilate fan
regar water irrigate
carregar charge load
armar arm
desarmar disarm
ficar stay be
estar be state status
faltar remain left missing
sobrar remain left
executar run execute
correr run
iniciar start
comecar start begin
terminar end finish
concluir complete finish
acabar finish end
marcar mark check
completar complete
riscar check off complete
"""

OTHERS = """
luz light lamp
luzes lights lamps
lampada lamp bulb light
lampadas lamps bulbs lights
candeeiro lamp light
abajur lamp light
interruptor switch
interruptores switches
tomada socket outlet plug
tomadas sockets outlets plugs
ventoinha fan
ventoinhas fans
ventilador fan
ventiladores fans
estore blind shutter cover
estores blinds shutters covers
persiana blind shutter cover
persianas blinds shutters covers
cortina curtain cover
cortinas curtains covers
portao gate garage door
portoes gates
garagem garage
porta door
portas doors
janela window
janelas windows
fechadura lock
fechaduras locks
cadeado lock padlock
termostato thermostat climate
termostatos thermostats
aquecimento heating
aquecedor heater
ar air
condicionado conditioner conditioning
temperatura temperature
humidade humidity
umidade humidity
brilho brightness
luminosidade brightness
cor color
cores colors
vermelho red
vermelha red
azul blue
verde green
amarelo yellow
amarela yellow
branco white
branca white
roxo purple
laranja orange
rosa pink
preto black
aspirador vacuum cleaner
robo robot
televisao television tv
televisor television tv
coluna speaker
colunas speakers
altifalante speaker
volume volume
som sound volume
musica music song
musicas music songs
cancao song
faixa track
faixas tracks
filme movie film
filmes movies films
serie series show
alarme alarm
alarmes alarms
despertador alarm clock
temporizador timer
temporizadores timers
cronometro timer stopwatch
lembrete reminder
lembretes reminders
horas time hours
hora time hour
minuto minute
minutos minutes
segundo second
segundos seconds
hoje today
amanha tomorrow
ontem yesterday
agora now
data date
dia day
semana week
mes month
tempo weather time
clima weather climate
previsao forecast weather
meteorologia weather forecast
chuva rain
chover rain
sol sun
vento wind
frio cold
quente hot warm
lista list
listas lists
compras shopping
tarefa task todo
tarefas tasks todo
afazeres todo tasks
item item
itens items
artigo article item
casa home house
quarto bedroom room
quartos bedrooms rooms
sala living room
cozinha kitchen
banheiro bathroom
escritorio office
corredor hallway corridor
jardim garden
varanda balcony porch
andar floor
piso floor
divisao room area
comodo room
bateria battery
baterias batteries
pilha battery
bomba pump
sensor sensor
movimento motion movement
camara camera
camera camera
fumo smoke
fumaca smoke
fuga leak
vazamento leak
estado state status
estados states
aberta open
aberto open
abertas open
abertos open
fechada closed
fechado closed
fechadas closed
fechados closed
ligada on
ligado on
ligadas on
ligados on
acesa on lit
acesas on lit
aceso on
acesos on
desligada off
desligado off
desligadas off
desligados off
apagada off deleted
apagado off deleted
todas all
todos all
tudo all everything
qual which what
quais which what
quanto how much
quanta how much
quantos how many
quantas how many
onde where
quem who
quando when
cena scene
ambiente scene environment
guiao script
seguinte next
proxima next
proximo next
anterior previous
ultima last
ultimo last
ficheiro file
ficheiros files
arquivo file archive
arquivos files archive
pasta folder directory
pastas folders
diretorio directory folder
utilizador user
utilizadores users
usuario user
usuarios users
conta account
contas accounts
senha password
ecra screen
tela screen
telemovel phone mobile
celular phone mobile
telefone phone
computador computer
rato mouse
impressora printer
correio mail email
mensagem message
mensagens messages
reuniao meeting
reunioes meetings
evento event
eventos events
compromisso appointment event
calendario calendar
agenda calendar agenda schedule
contacto contact
contato contact
contactos contacts
contatos contacts
encontro meeting date
fatura invoice bill
faturas invoices
recibo receipt
pagamento payment
pagamentos payments
encomenda order package
pedido order request
pedidos orders requests
cliente customer client
clientes customers clients
fornecedor supplier vendor
produto product
produtos products
estoque stock inventory
inventario inventory
preco price
precos prices
cotacao quote price rate
acoes stocks shares actions
moeda currency coin
cambio exchange rate
dinheiro money
banco bank database
dados data
base base database
tabela table
consulta query
relatorio report
relatorios reports
planilha spreadsheet
folha sheet
grafico chart graph
imagem image
imagens images
foto photo picture
fotos photos pictures
video video
videos videos
pagina page
paginas pages
sitio site website
rede network
servidor server
chamado ticket issue
chamados tickets issues
bilhete ticket
bilhetes tickets
passagem ticket
voo flight
voos flights
viagem trip travel
comboio train
trem train
autocarro bus
onibus bus
carro car
hotel hotel
hoteis hotels
restaurante restaurant
morada address
endereco address
mapa map
rota route
caminho path route
perto near nearby
noticia news
noticias news
pergunta question
resposta answer
resumo summary
repositorio repository
ramo branch
codigo code
erro error
erros errors
equipa team
equipe team
projeto project
projetos projects
empresa company
funcionario employee
vaga job
emprego job
palavra word
texto text
documento document
documentos documents
idioma language
lingua language
saude health
medico doctor
receita recipe prescription revenue
comida food
jogo game
jogos games
livro book
livros books
"""


def entries() -> dict[str, list[str]]:
    """Portuguese word, without accents -> English words."""
    from .morphology import forms

    found: dict[str, list[str]] = {}
    for line in VERBS.split("\n"):
        infinitive, *english = line.split() or [""]
        for form in forms(infinitive)[:20]:
            found.setdefault(form, []).extend(word for word in english if word not in found.get(form, []))
    for line in OTHERS.split("\n"):
        word, *english = line.split() or [""]
        if word:
            found[word] = english
    return found
