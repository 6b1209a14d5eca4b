import { expect, test } from 'vitest'
import { accessible, allow, at, fits, full, h1, later, open, settled, signIn, theContext, to } from './browser'
import { address, views } from './views'

for (const mount of full ? (['root', 'prefix', 'proxy'] as const) : (['prefix', 'proxy'] as const)) {
  test(`mount: the console works at ${mount}`, async () => {
    const p = await open(at[mount] + '#/shop/overview')
    await h1(p, 'Overview')
    await p.getByText('Commands per second').waitFor()
    await p.getByRole('link', { name: 'KV', exact: true }).click()
    await h1(p, 'KV')
    await p.getByRole('row', { name: /config\/checkout/ }).click()
    await p.locator('.inspector').getByText('northbank').waitFor()
    expect(new URL(p.url()).pathname).toBe(new URL(at[mount]).pathname)
    await p.reload()
    await p.locator('.inspector').getByText('northbank').waitFor()
    await p.goBack()
    await p.goBack()
    await h1(p, 'Overview')
  })
}

test('mount: without its slash it is the same console', async () => {
  const p = await open(at.prefix.slice(0, -1) + '#/shop/overview')
  await h1(p, 'Overview')
  expect(p.url()).toBe(at.prefix + '#/shop/overview')
})

test('overview: what needs somebody is there, leads to where it is, and changes while one looks', async () => {
  const p = await open(at.root + '#/shop/overview', { clock: true })
  const row = (name: string | RegExp) => p.locator('[data-test=problems] li', { hasText: name }).first()
  await row(/newsletter.*dead letter/).waitFor()
  const found = (await (await fetch(at.root + 'api/v1/console/problems?namespace=shop')).json()) as { problems: { name: string; text: string }[] }
  expect(found.problems.map(f => f.name)).toContain('tax')
  await row('tax')
    .getByText(/^failed/)
    .waitFor()
  const waiting = found.problems.find(f => f.name === 'scan-invoice')!
  await row('scan-invoice').getByText(waiting.text).waitFor()
  await fetch(at.root + 'api/v1/actions/scan-invoice/invoke?namespace=shop', { method: 'POST', body: '{}' })
  await p.clock.runFor(5000)
  await row('scan-invoice')
    .getByText(waiting.text.replace(/\d+/, n => String(Number(n) + 1)))
    .waitFor()
  await row(/newsletter.*dead letter/)
    .getByRole('link')
    .click()
  await h1(p, 'newsletter')
  await p.locator('[role=tab][aria-selected=true]', { hasText: 'Dead' }).waitFor()
  await p.goBack()
  await p.getByLabel('Namespace').selectOption('sandbox')
  await p.getByText('All clear in namespace sandbox').waitFor()
})

test('overview: what could not be looked at is said', async () => {
  const p = await open(at.root)
  await p.route('**/console/problems**', r =>
    r.fulfill({
      json: { namespace: 'shop', problems: [], partial: ['queues', 'runs'].map(what => ({ what, error: 'shard 2 has no leader' })), truncated: false },
    }),
  )
  await to(p, '#/shop/overview')
  await p.locator('[data-test=partial]').getByText('queues, runs (shard 2 has no leader)').waitFor()
})

test('shards without a leader are named on every screen, until they have one', async () => {
  const p = await open('about:blank')
  const shard = (id: number, leader: number) => ({ id, leader, behind: 0, lsn: 7, queued: 0, waiting: 0 })
  await p.route('**/console/shards', r => r.fulfill({ json: [shard(0, 1), shard(1, 0), shard(2, 1), shard(3, 0)] }))
  await p.goto(at.root)
  for (const [name, hash] of full ? views : views.slice(0, 2)) {
    await to(p, await address(hash))
    await settled(p)
    await p.locator('[data-test=unled]').getByText('2 of 4 shards have no leader (1, 3)').waitFor()
    await fits(p, name)
  }
  await to(p, '#/shop/overview')
  await p.locator('.health').getByText('2 shards without a leader').waitFor()
  await p.locator('[data-test=shards] tbody tr').first().getByText('no leader').waitFor()
  await accessible(p, 'shards without a leader')
  await p.unroute('**/console/shards')
  await p.keyboard.press('r')
  await p.locator('[data-test=unled]').waitFor({ state: 'detached' })
  await p.locator('[data-test=shards]').getByText('healthy').first().waitFor()
})

test('overview: its figures are those of the API', async () => {
  const p = await open(at.root + '#/warehouse/overview')
  const namespaces = (await (await fetch(at.root + 'api/v1/namespaces')).json()) as { name: string; kv_count: number; queue_count: number }[]
  const warehouse = namespaces.find(n => n.name === 'warehouse')!
  const panel = p.locator('[data-test=namespace]')
  await panel.waitFor()
  expect(await panel.getByRole('link', { name: /^Keys/ }).innerText()).toContain(warehouse.kv_count.toLocaleString('en-US'))
  expect(await panel.getByRole('link', { name: /^Queues/ }).innerText()).toContain(String(warehouse.queue_count))
  await p.locator('[data-test=nodes]').getByText('healthy').waitFor()
  await p.getByRole('img', { name: /^Commands per second/ }).waitFor()
  await panel.getByRole('link', { name: /^Queues/ }).click()
  await h1(p, 'Queues')
})

test('overview: while the node cannot be reached nothing is called healthy or clear', async () => {
  const p = await open(at.root + '#/sandbox/overview')
  allow(/ERR_INTERNET_DISCONNECTED|Failed to load/)
  await p.getByText('All clear in namespace sandbox').waitFor()
  await p.locator('#main .tag', { hasText: 'All namespaces' }).first().waitFor()
  await settled(p)
  await theContext().setOffline(true)
  await p.keyboard.press('r')
  await p.getByText('unreachable').waitFor()
  await p.getByText('The state of namespace sandbox is unknown.').waitFor()
  await p.locator('[data-test=nodes]').getByText('unknown').first().waitFor()
  await p.locator('[data-test=shards]').getByText('unknown').first().waitFor()
  expect(await p.getByText(/healthy|All clear/).count()).toBe(0)
  await theContext().setOffline(false)
  await p.keyboard.press('r')
  await p.getByText('All clear in namespace sandbox').waitFor()
})

test('overview: where default is empty, the busiest namespace opens, unless one was chosen', async () => {
  const p = await open('about:blank')
  const counts = ['stream_count', 'queue_count', 'kv_count', 'workflow_count', 'processing_count', 'action_count'] as const
  const all = (await (await fetch(at.root + 'api/v1/namespaces')).json()) as (Record<(typeof counts)[number], number> & { name: string })[]
  const empty = all.find(n => n.name === 'default')!
  for (const c of counts) empty[c] = 0
  const busiest = all.map(n => ({ name: n.name, size: counts.reduce((sum, c) => sum + n[c], 0) })).sort((a, b) => b.size - a.size)[0]!.name
  await p.route('**/api/v1/namespaces', r => r.fulfill({ json: all }))
  await p.goto(at.root)
  await expect.poll(() => p.url()).toBe(`${at.root}#/${busiest}/overview`)
  await to(p, '#/default/overview')
  await p.getByText('All clear in namespace default').waitFor()
  expect(p.url()).toContain('#/default/overview')
})

test('a namespace that does not exist is not shown as an empty one', async () => {
  const p = await open(at.root + '#/nowhere/streams')
  allow(/404/)
  const said = p.locator('#main').getByText('Namespace nowhere does not exist.')
  await said.waitFor()
  await to(p, '#/nowhere/kv')
  await h1(p, 'KV')
  await said.waitFor()
  await to(p, '#/nowhere/overview')
  await h1(p, 'Overview')
  await said.waitFor()
  expect(await p.getByText('All clear').count()).toBe(0)
})

test('shell: switching the namespace keeps the screen and drops what was open', async () => {
  const p = await open(at.root + '#/shop/kv/count%2Forders')
  await p.locator('.counter').waitFor()
  await p.getByLabel('Namespace').selectOption('default')
  await p.getByRole('row', { name: /hello/ }).waitFor()
  expect(p.url()).toContain('#/default/kv')
  await p.getByLabel('Namespace').selectOption('sandbox')
  await p.getByText(/No keys in namespace .* yet/).waitFor()
})

test('shell: a palette that goes anywhere, keys for the screens, a help', async () => {
  const p = await open(at.root + '#/shop/overview')
  await h1(p, 'Overview')
  await p.keyboard.press('g')
  await p.keyboard.press('q')
  await h1(p, 'Queues')
  await p.keyboard.press('Control+k')
  await p.getByRole('combobox', { name: /Go to/ }).fill('thumb')
  await p
    .getByRole('option', { name: /thumbnails/ })
    .first()
    .waitFor()
  await p.keyboard.press('Enter')
  await h1(p, 'thumbnails')
  // A job by its name, and by its id.
  await p.keyboard.press('Control+k')
  const box = p.getByRole('combobox', { name: /Go to/ })
  await box.fill('enrich')
  await p.getByRole('option', { name: 'job enrich', exact: true }).click()
  await h1(p, 'enrich')
  const id = decodeURIComponent(p.url().split('/').pop()!)
  await p.keyboard.press('Control+k')
  await box.fill(id)
  await p.getByRole('option', { name: 'job enrich', exact: true }).waitFor()
  await p.keyboard.press('Escape')
  await p.keyboard.press('?')
  await p.getByRole('dialog', { name: 'Keyboard' }).waitFor()
  await p.keyboard.press('Escape')
  await p.getByRole('dialog').waitFor({ state: 'detached' })
})

test('shell: theme, zone and pause are kept', async () => {
  const p = await open(at.root + '#/settings', { clock: true })
  await p.getByRole('button', { name: 'Dark', exact: true }).click()
  await p.getByRole('group', { name: 'Times' }).getByRole('button', { name: 'UTC' }).click()
  await p.reload()
  expect(await p.evaluate(() => document.documentElement.dataset['theme'])).toBe('dark')
  expect(await p.getByRole('group', { name: 'Times' }).getByRole('button', { name: 'UTC' }).getAttribute('aria-pressed')).toBe('true')
  await h1(p, 'Settings')
  await p.keyboard.press('p')
  expect(await p.locator('.refresh select').inputValue()).toBe('paused')
  let reads = 0
  p.on('request', r => (reads += r.url().includes('/api/') ? 1 : 0))
  await to(p, '#/shop/queues')
  await p.getByRole('row', { name: /mail/ }).waitFor()
  const first = reads
  await p.clock.runFor(60_000)
  expect(reads - first).toBe(0)
})

test('sign-in: a key is asked for, a wrong one refused, the way back kept', async () => {
  const p = await open(at.guarded + '#/shop/kv/count%2Forders')
  allow(/401/)
  await signIn(p, 'floe_sk_wrong')
  await p.getByText('Invalid or revoked API key').waitFor()
  const waiting = await theContext().newPage()
  await waiting.goto(at.guarded + '#/shop/kv')
  await h1(waiting, 'Sign in')
  await signIn(p, at.admin)
  await p.locator('.counter').waitFor()
  expect(p.url()).toContain('#/shop/kv/count%2Forders')
  // A tab that was waiting for a key has the session too.
  await h1(waiting, 'KV')
  expect(waiting.url()).toContain('#/shop/kv')
  await waiting.close()
  expect(await p.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).not.toContain(at.admin)
  expect(await p.getByRole('button', { name: 'Edit' }).isDisabled()).toBe(false)
  // A new tab of the same mount is signed in.
  const other = await theContext().newPage()
  await other.goto(at.guarded + '#/shop/overview?refresh=paused')
  await other.getByText('Commands per second').waitFor()
  const token = await p.evaluate(() => Object.values({ ...sessionStorage }).find(v => v.startsWith('floe_st_')) ?? '')
  const good = async () => {
    const answer = await fetch(at.guarded + 'api/v1/auth/status', { headers: { Authorization: 'Bearer ' + token } })
    return ((await answer.json()) as { authenticated: boolean }).authenticated
  }
  expect(await good()).toBe(true)
  await p.getByRole('button', { name: 'Sign out' }).click()
  await h1(p, 'Sign in')
  await h1(other, 'Sign in')
  await expect.poll(good).toBe(false)
})

test('sign-in: a key for reading changes nothing, and is told so', async () => {
  const p = await open(at.guarded + '#/shop/queues/newsletter?state=dlq&seq=5')
  allow(/401/)
  await signIn(p, at.reader)
  const requeue = p.locator('.inspector').getByRole('button', { name: 'Requeue' })
  await expect.poll(() => requeue.isDisabled()).toBe(true)
  expect(await requeue.getAttribute('title')).toContain('role read')
  await to(p, '#/shop/overview')
  await p.getByText('role read').waitFor()
})

test('sign-in: a key for some namespaces sees these, and of others that it may not', async () => {
  const p = await open(at.guarded + '#/warehouse/kv')
  allow(/401|403/)
  await signIn(p, at.narrow)
  await p.getByRole('row', { name: /shelf\/01/ }).waitFor()
  await to(p, '#/shop/kv')
  await p.getByText('Your API key does not allow this').first().waitFor()
  await to(p, '#/shop/overview')
  await p.getByText('Your API key does not allow this').first().waitFor()
  await to(p, '#/about')
  await p.getByText('warehouse', { exact: true }).last().waitFor()
})

test('sign-in: when the key is taken back the session is over, and one comes back to where one was', async () => {
  const p = await open(at.guarded + '#/shop/queues', { clock: true })
  allow(/401/)
  await signIn(p, at.guest)
  await p.getByRole('row', { name: /^mail/ }).waitFor()
  expect((await fetch(at.revoke)).status).toBe(200)
  await p.clock.runFor(2000)
  await h1(p, 'Sign in')
  expect(await p.evaluate(() => JSON.stringify({ ...sessionStorage }))).toBe('{}')
  await signIn(p, at.admin)
  await p.getByRole('row', { name: /^mail/ }).waitFor()
})

test('sign-in: what was typed in a dialog when the session has ended is there afterwards', async () => {
  const p = await open(at.guarded + '#/shop/kv/config%2Fmail')
  allow(/401/)
  await signIn(p, at.admin)
  const dialog = p.getByRole('dialog', { name: /^Edit/ })
  await p.getByRole('button', { name: 'Edit' }).click()
  await dialog.getByLabel('Value').fill('an hour of work')
  // From now on the node does not know the token.
  const gone = await p.evaluate(() => 'Bearer ' + Object.values({ ...sessionStorage })[0])
  await p.route('**/api/**', r =>
    r.continue({ headers: { ...r.request().headers(), ...(r.request().headers()['authorization'] === gone ? { authorization: 'Bearer gone' } : {}) } }),
  )
  await dialog.getByRole('button', { name: 'Save' }).click()
  await h1(p, 'Sign in')
  await expect.poll(() => p.getByLabel('API key').evaluate(e => e === document.activeElement)).toBe(true)
  expect(await p.locator('.shell').isVisible()).toBe(false)
  expect(await dialog.count()).toBe(0)
  expect(await p.evaluate(() => JSON.stringify({ ...sessionStorage }))).toBe('{}')
  await p.keyboard.press('Escape')
  await signIn(p, at.admin)
  await dialog.getByText('nothing was changed').waitFor()
  expect(await dialog.getByLabel('Value').inputValue()).toBe('an hour of work')
  expect(p.url()).toBe(at.guarded + '#/shop/kv/config%2Fmail')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await p.getByText('Key config/mail changed.').waitFor()
  await p.locator('.inspector').getByText('an hour of work').waitFor()
})

test('sign-in: when the time of the session is over a key is asked for, though nothing is read just then', async () => {
  const p = await open(at.guarded + '#/shop/kv/count%2Forders?tab=history', { clock: true })
  allow(/401/)
  await signIn(p, at.admin)
  await p.locator('[data-test=history]').waitFor()
  const { expires_at } = (await p.evaluate(async () => {
    const token = Object.values({ ...sessionStorage })[0] as string
    return (await fetch('api/v1/console/me', { headers: { Authorization: `Bearer ${token}` } })).json()
  })) as { expires_at: number }
  await p.keyboard.press('p')
  await later(p, 1000) // an answer that was under way would tell the time of before
  await p.clock.fastForward(expires_at - Date.now() - 60_000)
  expect(await p.locator('[data-test=history]').count()).toBe(1)
  await p.clock.fastForward(61_000)
  await h1(p, 'Sign in')
  expect(await p.evaluate(() => JSON.stringify({ ...sessionStorage }))).toBe('{}')
  await p.clock.setSystemTime(new Date())
  await signIn(p, at.admin)
  await p.locator('[data-test=history]').waitFor()
  expect(p.url()).toBe(at.guarded + '#/shop/kv/count%2Forders?tab=history&refresh=paused')
})

test('refresh: it stops for a dialog, for selected text, in a hidden tab and when it is paused, and goes on', async () => {
  const p = await open(at.root + '#/shop/queues', { clock: true })
  await p.getByRole('row', { name: /^mail/ }).waitFor()
  let reads = 0
  p.on('request', r => (reads += r.url().includes('/api/v1/queues?') ? 1 : 0))
  const during = async (ms: number) => {
    const before = reads
    await later(p, ms)
    return reads - before
  }
  const show = (hidden: boolean) =>
    p.evaluate(h => {
      Object.defineProperty(document, 'hidden', { value: h, configurable: true })
      Object.defineProperty(document, 'visibilityState', { value: h ? 'hidden' : 'visible', configurable: true })
      document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
    }, hidden)
  const stops: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
    ['a dialog', () => p.getByRole('button', { name: 'Enqueue', exact: true }).click(), () => p.keyboard.press('Escape')],
    [
      'a selection',
      () => p.evaluate(() => getSelection()!.selectAllChildren(document.querySelector('h1')!)),
      () => p.evaluate(() => getSelection()!.removeAllRanges()),
    ],
    ['a hidden tab', () => show(true), () => show(false)],
    ['a pause', () => p.keyboard.press('p'), () => p.keyboard.press('p')],
  ]
  for (const [what, stop, go] of stops) {
    await stop()
    await later(p, 1000) // what was under way
    expect([what, await during(7000)]).toEqual([what, 0])
    await go()
    expect([what, (await during(7000)) > 1]).toEqual([what, true])
  }
  await p.keyboard.press('p')
  await expect.poll(() => p.url()).toContain('refresh=paused')
  await later(p, 1000)
  await show(true)
  await show(false)
  expect(await during(3000)).toBe(0)
  const before = reads
  await p.keyboard.press('r')
  await later(p, 3000)
  expect(reads - before).toBe(1)
  // A colleague who is sent this sees it at rest, and goes on when they want to.
  await p.keyboard.press('p')
  await expect.poll(() => p.url()).not.toContain('refresh')
})

test('an update: what the tab cannot load any more says so, and a reload goes on where one is', async () => {
  const p = await open(at.root + '#/shop/overview')
  await settled(p)
  allow(/ERR_FAILED|dynamically imported|Failed to load/)
  await p.route('**/assets/KV-*.js', r => r.abort())
  await p.getByRole('link', { name: 'KV', exact: true }).click()
  await p.getByText('The console was updated').waitFor()
  await p.unroute('**/assets/KV-*.js')
  await p.getByRole('button', { name: 'Reload' }).click()
  await h1(p, 'KV')
  expect(p.url()).toBe(at.root + '#/shop/kv')
})

test('freshness: a node that cannot be reached leaves what was read, and comes back', async () => {
  const screens = [
    ['#/shop/ts/cpu?range=15m', 'usage'],
    ['#/shop/queues', 'mail'],
    ['#/shop/floql?q=cpu%5B1h%5D%20%7C%20avg()', ' series,'],
  ] as const
  for (const [hash, shown] of full ? screens : screens.slice(0, 2)) {
    const p = await open(at.root + hash, { clock: true })
    allow(/ERR_INTERNET_DISCONNECTED|Failed to load/)
    const what = p.locator('#main h2, #main [role=row], [data-test=result]').filter({ hasText: shown }).first()
    await what.waitFor()
    await settled(p)
    await theContext().setOffline(true)
    await p.keyboard.press('r')
    await p.getByText('unreachable').waitFor()
    await p.clock.runFor(60_000)
    await p.getByText('Out of date').first().waitFor()
    // What was read is there still, and stays: a range that moves on is not another thing.
    await what.waitFor()
    expect(await p.getByRole('alert').count()).toBe(0)
    await p.locator('.note').getByRole('button', { name: 'Try again' }).first().click()
    await theContext().setOffline(false)
    await p.getByRole('button', { name: 'Refresh now' }).click()
    await p.getByText('Out of date').first().waitFor({ state: 'detached' })
  }
})

test('kept out: no control purges, trims, deletes a stream, signals or creates a workflow', async () => {
  const p = await open(at.root + '#/shop/queues/newsletter')
  for (const [hash, title] of [
    ['#/shop/queues/newsletter', 'newsletter'],
    ['#/shop/streams/orders', 'orders'],
    ['#/shop/workflows/order', 'order'],
  ] as const) {
    await to(p, hash)
    await h1(p, title)
    expect(await p.getByRole('button', { name: /purge|trim|delete stream|delete group|signal|create/i }).count()).toBe(0)
  }
})

test('read-only: controls are there and say why they do nothing', async () => {
  const p = await open(at.reading + '#/shop/kv/count%2Forders')
  const edit = p.getByRole('button', { name: 'Edit' })
  await edit.waitFor()
  await expect.poll(() => edit.isDisabled()).toBe(true)
  const write = p.getByRole('button', { name: 'New key' })
  await expect.poll(() => write.isDisabled()).toBe(true)
  expect(await write.getAttribute('title')).toContain('read-only')
})
