// Token exchange (RFC 8693, with ID-JAG) and JWT assertions (RFC 7523) for the issuer in `oidc_provider.mjs`.
// `policy` says what may be exchanged: tokens for `audience`, by people who are not among `denied` (access_denied)
// or `ended` (invalid_grant), for a resource in `targets`. `answer`: "wrong_type", "n_a", "refresh", "down" or
// "html" instead of what is right. `workload`: the issuer and public key of assertions that are no ID-JAG.
import { createPublicKey, randomUUID, sign, verify } from 'node:crypto';

const TYPE = 'urn:ietf:params:oauth:token-type:';
const ID_JAG = `${TYPE}id-jag`;
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (text) => JSON.parse(Buffer.from(text, 'base64url').toString());
const signature = (key) => ({ key, dsaEncoding: 'ieee-p1363' });

function read(token, keys, errors) {
  try {
    const [head, body, proof] = token.split('.');
    const fits = keys.some((jwk) => verify(
      'sha256',
      Buffer.from(`${head}.${body}`),
      signature(createPublicKey({ key: jwk, format: 'jwk' })),
      Buffer.from(proof, 'base64url'),
    ));
    const claims = decode(body);
    if (fits && claims.exp > Date.now() / 1000) return { typ: decode(head).typ, ...claims };
  } catch { /* not a JWT */ }
  throw new errors.InvalidGrant('the token is not valid');
}

export function addExchange(provider, { issuer, signing, policy, events, used, errors, serverInfo }) {
  async function opaque(text) {
    const found = await provider.AccessToken.find(text);
    if (!found?.isValid) throw new errors.InvalidGrant();
    return { iss: issuer, sub: found.accountId, aud: found.aud };
  }

  async function issue(ctx, sub, gty) {
    const { resource, scope } = ctx.oidc.params;
    if (!policy.targets?.includes(resource)) throw new errors.InvalidTarget();
    const token = new provider.AccessToken({ accountId: sub, client: ctx.oidc.client, gty, scope });
    token.resourceServer = new provider.ResourceServer(resource, serverInfo(ctx, resource));
    return {
      access_token: await token.save(),
      token_type: 'Bearer',
      expires_in: token.expiration,
      ...(policy.answer === 'refresh' ? { refresh_token: 'not-to-be-kept' } : {}),
    };
  }

  provider.registerGrantType('urn:ietf:params:oauth:grant-type:token-exchange', async (ctx) => {
    const { params, client } = ctx.oidc;
    const isJag = params.requested_token_type === ID_JAG;
    events.push({
      grant: isJag ? 'id-jag' : 'exchange', client: client.clientId, type: params.subject_token_type, audience: params.audience,
    });
    if (policy.answer === 'down') { ctx.status = 503; return; }
    if (policy.answer === 'html') { ctx.body = '<html>busy</html>'; return; }
    const subject = params.subject_token.includes('.')
      ? read(params.subject_token, signing(), errors)
      : await opaque(params.subject_token);
    if (subject.iss !== issuer || ![subject.aud].flat().includes(policy.audience)) throw new errors.InvalidGrant();
    if (params.subject_token_type !== `${TYPE}${policy.type ?? 'access_token'}`) throw new errors.InvalidRequest();
    if (policy.ended?.includes(subject.sub)) throw new errors.InvalidGrant();
    if (policy.denied?.includes(subject.sub)) throw new errors.AccessDenied();
    if (!isJag) {
      const issued = policy.answer === 'wrong_type' ? 'id_token' : 'access_token';
      ctx.body = { ...await issue(ctx, subject.sub, 'token_exchange'), issued_token_type: `${TYPE}${issued}` };
      if (policy.answer === 'n_a') ctx.body.token_type = 'N_A';
      return;
    }
    const now = Math.floor(Date.now() / 1000);
    const head = encode({ alg: 'ES256', typ: 'oauth-id-jag+jwt' });
    const body = encode({
      iss: issuer, sub: subject.sub, aud: params.audience, client_id: client.clientId, jti: randomUUID(), iat: now, exp: now + 60, resource: params.resource,
    });
    const proof = sign('sha256', Buffer.from(`${head}.${body}`), { key: signing()[0], format: 'jwk', dsaEncoding: 'ieee-p1363' });
    ctx.body = {
      access_token: `${head}.${body}.${proof.toString('base64url')}`,
      issued_token_type: policy.answer === 'wrong_type' ? `${TYPE}access_token` : ID_JAG,
      token_type: 'N_A',
      expires_in: 60,
    };
  }, ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope']);

  provider.registerGrantType('urn:ietf:params:oauth:grant-type:jwt-bearer', async (ctx) => {
    const { params, client } = ctx.oidc;
    const { workload } = policy;
    const told = decode(params.assertion.split('.')[1]);
    events.push({ grant: 'jwt-bearer', client: client.clientId, iss: told.iss, jti: told.jti });
    const isWorkload = workload && told.iss === workload.issuer;
    const claims = read(params.assertion, isWorkload ? [workload.key] : signing(), errors);
    if (claims.aud !== issuer || used.has(claims.jti)) throw new errors.InvalidGrant();
    if (!isWorkload) {
      const fits = claims.typ === 'oauth-id-jag+jwt' && claims.client_id === client.clientId && claims.resource === params.resource;
      if (!fits) throw new errors.InvalidGrant();
    }
    used.add(claims.jti);
    ctx.body = await issue(ctx, claims.sub, 'jwt_bearer');
  }, ['assertion', 'resource', 'scope']);
}
