// The certified `oidc-provider` as an issuer: `node oidc_provider.mjs PACKAGE PORT [ISSUER]`. Says "ready" when
// it listens. ISSUER is its address behind a proxy. Lines on stdin change it while it runs: "rotate" (a new key
// signs, the old ones stay published), "withdraw" (only the newest key is published), "opaque" and "jwt" (the
// form of new access tokens), "ttl N" (the seconds that new access tokens live), "count" (prints how many
// refreshes), "revoke" (all that was granted), "slow N" (so many polls for a device code are told to slow
// down), "exchange JSON" (what may be exchanged, see `oidc_exchange.mjs`), "exchanged" (prints what was asked
// to be, as JSON).
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { addExchange } from './oidc_exchange.mjs';

const [, , home, port, proxied] = process.argv;
const { default: Provider, errors } = await import(pathToFileURL(`${home}/lib/index.js`));
const { createMemoryAdapter } = await import(pathToFileURL(`${home}/lib/adapters/memory_adapter.js`));
const adapter = createMemoryAdapter(0);
const issuer = proxied ?? `http://127.0.0.1:${port}`;
const keys = [];
let format = 'jwt';
let ttl = 3600;
let refreshes = 0;
let slow = 0;
const grants = new Set();
let answer;
const policy = {};
const events = [];
const used = new Set();
const serverInfo = (ctx, resource) => ({
  audience: resource,
  scope: 'mcp mcp:write',
  accessTokenFormat: format,
  accessTokenTTL: ttl,
  jwt: { sign: { alg: 'ES256' } },
});

function addKey() {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  keys.unshift({ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' });
}

// Keys are given when a provider is made, so a rotation makes another one; the adapter keeps what was granted.
function start() {
  const { privateKey } = start.rsa ??= generateKeyPairSync('rsa', { modulusLength: 2048 });
  const provider = new Provider(issuer, {
    jwks: { keys: [...keys, { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    clients: [{
      client_id: 'yard',
      client_secret: 'yard-secret-of-the-tests',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    }],
    adapter,
    scopes: ['openid', 'offline_access', 'mcp', 'mcp:write'],
    cookies: { keys: ['only for tests'] },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    pkce: { required: () => true },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      dPoP: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      registration: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: serverInfo,
      },
    },
  });
  provider.on('grant.success', (ctx) => { refreshes += ctx.oidc.params.grant_type === 'refresh_token'; });
  provider.on('access_token.saved', (token) => grants.add(token.grantId));
  provider.use(async (ctx, next) => {
    await next();
    if (slow > 0 && ctx.status === 400 && ctx.body?.error === 'authorization_pending') {
      slow -= 1;
      ctx.body = { error: 'slow_down' };
    }
  });
  provider.proxy = proxied !== undefined;
  addExchange(provider, { issuer, signing: () => keys, policy, events, used, errors, serverInfo });
  answer = provider.callback();
}

addKey();
start();
const server = createServer((request, response) => answer(request, response));
server.listen(Number(port), '127.0.0.1', () => console.log('ready'));
async function revoke() {
  for (const id of grants) {
    await adapter('AccessToken').revokeByGrantId(id);
    await adapter('Grant').destroy(id);
  }
  grants.clear();
}

createInterface({ input: process.stdin }).on('line', async (line) => {
  if (line === 'rotate') addKey();
  if (line === 'withdraw') keys.splice(1);
  if (line === 'opaque' || line === 'jwt') format = line;
  else if (line.startsWith('ttl ')) ttl = Number(line.slice(4));
  else if (line === 'count') console.log(String(refreshes));
  else if (line === 'revoke') await revoke();
  else if (line.startsWith('slow ')) slow = Number(line.slice(5));
  else if (line === 'exchanged') console.log(JSON.stringify(events.splice(0)));
  else if (line.startsWith('exchange ')) Object.assign(policy, JSON.parse(line.slice(9)));
  else start();
  console.log('done');
}).on('close', () => process.exit(0));
