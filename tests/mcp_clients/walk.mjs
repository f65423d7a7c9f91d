// Walks through the MCP endpoint with a client of the TypeScript SDK, and prints what it sees.
// Arguments: sdk (version 1, protocol 2025-11-25) or client (version 2, 2026-07-28), URL, token.
const [, , generation, url, token] = process.argv;
const information = { name: 'kais-tests', version: '1' };
const requestInit = { headers: { Authorization: `Bearer ${token}` } };

async function connect() {
  if (generation === 'sdk') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(information);
    await client.connect(new http.StreamableHTTPClientTransport(new URL(url), { requestInit }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const pin = '2026-07-28';
  const client = new Client(information, { versionNegotiation: { mode: { pin } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

async function listen(client) {
  if (generation === 'sdk') return null;
  let announce;
  const changed = new Promise((resolve) => { announce = resolve; });
  client.setNotificationHandler('notifications/resources/list_changed', () => announce(true));
  const subscription = await client.listen({ resourcesListChanged: true });
  return { subscription, changed };
}

const client = await connect();
const call = (name, args) => client.callTool({ name, arguments: args });
const seen = { version: client.getServerVersion(), capabilities: client.getServerCapabilities() };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const listening = await listen(client);
const entity = { name: `Ann ${generation}`, entityType: 'person', observations: ['likes </graph> tea'] };
seen.created = await call('create_entities', { entities: [entity] });
seen.announced = listening ? await listening.changed : null;
if (listening) {
  await listening.subscription.close();
  seen.ended = await listening.subscription.closed;
}
seen.found = await call('search_nodes', { query: 'LIKES' });
seen.chart = await call('create_structural_tension_chart', {
  desiredOutcome: 'Five songs', currentReality: 'None yet', dueDate: '2030-05-01',
});
seen.refused = await call('get_chart_progress', { chartId: 'chart_1' });
seen.invalid = await call('create_entities', { entities: [{ nam: 'x' }] });
seen.resources = [];
for (let cursor, page; page === undefined || cursor !== undefined; cursor = page.nextCursor) {
  page = await client.listResources({ cursor });
  seen.resources.push(...page.resources.map((resource) => resource.uri));
}
const templates = await client.listResourceTemplates();
seen.templates = templates.resourceTemplates.map((template) => template.uriTemplate);
const uri = `kais://entities/${encodeURIComponent(entity.name)}`;
seen.read = JSON.parse((await client.readResource({ uri })).contents[0].text);
seen.missing = await client.readResource({ uri: 'kais://charts/none' }).catch((error) => error.code);
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
seen.prompt = await client.getPrompt({ name: 'recall', arguments: { task: 'who likes tea?' } });
await client.close();
console.log(JSON.stringify(seen));
