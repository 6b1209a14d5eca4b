// What the console changes beside what the stories of screens.ts change: each control does what it says, and shows the command that does the same.
import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { allow, at, h1, later, open, signIn, to } from './browser'
import { address } from './views'

const api = async (path: string, method = 'GET', body?: string) => {
  const r = await fetch(at.root + 'api/v1' + path, { method, ...(body === undefined ? {} : { body }) })
  if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${await r.text()}`)
  return (await r.json()) as unknown
}
const press = (p: Page | Locator, name: string) => p.getByRole('button', { name, exact: true }).first().click()
const shows = (dialog: Locator, command: string) => dialog.locator('.snippet-line').first().getByText(command, { exact: true }).waitFor()
const said = (p: Page, text: string | RegExp) => p.locator('.toast').getByText(text).first().waitFor()

/** Presses a button that asks, checks the command, and says yes. */
async function act(p: Page, name: string, command: string) {
  const dialog = p.getByRole('dialog')
  await p.locator('#main').getByRole('button', { name, exact: true }).click()
  await shows(dialog, command)
  await press(dialog, name)
  await dialog.waitFor({ state: 'detached' })
}

test('writes: a queue is paused, resumed and configured, and its dead letters are requeued', async () => {
  for (const n of [1, 2]) await api('/queues/e2e-writes?namespace=shop', 'POST', `letter ${n}`)
  const p = await open(at.root + '#/shop/queues/e2e-writes')
  const dialog = p.getByRole('dialog')
  const state = () => api('/console/queues/e2e-writes?namespace=shop') as Promise<Record<string, number | boolean>>
  await act(p, 'Pause', 'floe queue pause -n shop e2e-writes')
  await said(p, 'Queue e2e-writes paused.')
  expect((await state())['paused']).toBe(true)
  await act(p, 'Resume', 'floe queue resume -n shop e2e-writes')
  await said(p, 'Queue e2e-writes resumed.')
  expect((await state())['paused']).toBe(false)
  await press(p, 'Settings')
  const values: [RegExp, string, string][] = [
    [/^Maximum messages/, 'some', '500'],
    [/^Maximum bytes/, '1MB', '1MiB'],
    [/^Maximum attempts/, '-1', '1'],
    [/^Minimum back-off/, 'soon', '0s'],
    [/^Maximum back-off/, '', '2m'],
    [/^Retention of dead letters/, '1w', '7d'],
    [/^Deduplication window/, '1', '30m'],
  ]
  for (const [label, bad, good] of values) {
    await dialog.getByLabel(label).fill(bad)
    expect(await dialog.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
    await dialog.getByLabel(label).fill(good)
  }
  const flags = '--max-len 500 --max-bytes 1MiB --max-attempts 1 --backoff-min 0s --backoff-max 2m --dead-retention 7d --dedup-window 30m'
  await shows(dialog, `floe queue configure -n shop ${flags} e2e-writes`)
  await press(dialog, 'Save')
  await said(p, 'Settings of queue e2e-writes saved.')
  expect(await state()).toMatchObject({
    max_len: 500,
    max_bytes: 1 << 20,
    max_attempts: 1,
    backoff_min_ms: 0,
    backoff_max_ms: 0,
    dead_retention_ms: 7 * 86_400_000,
    dedup_window_ms: 1_800_000,
  })
  const taken = (await api('/queues/e2e-writes/dequeue?namespace=shop', 'POST', '{"max":2}')) as { messages: { receipt: string }[] }
  await api('/queues/e2e-writes/nack?namespace=shop', 'POST', JSON.stringify({ receipts: taken.messages.map(m => m.receipt), to_dlq: true }))
  await to(p, '#/shop/queues/e2e-writes?state=dlq')
  await p.getByRole('tab', { name: 'Dead 2' }).waitFor()
  await p.getByRole('row', { name: /letter 1/ }).waitFor()
  await press(p, 'Requeue all')
  await shows(dialog, 'floe queue dlq requeue -n shop --all e2e-writes')
  await dialog.getByLabel(/^Contains/).fill('letter 1')
  await shows(dialog, "floe queue dlq requeue -n shop --contains 'letter 1' e2e-writes")
  await press(dialog, 'Requeue matches')
  await said(p, '1 dead letter requeued.')
  await press(p, 'Requeue all')
  await press(dialog, 'Requeue all')
  await p.getByText('No dead letters.').waitFor()
})

test('writes: a stream is created, appended to and limited, and a group is moved', async () => {
  const p = await open(at.root + '#/shop/streams')
  const dialog = p.getByRole('dialog')
  await press(p, 'New stream')
  await dialog.getByLabel('Stream').fill('orders')
  await dialog.getByText('Stream orders exists.').waitFor()
  await dialog.getByLabel('Stream').fill('e2e-writes')
  await dialog.getByLabel(/^Partitions/).fill('2')
  await dialog.getByLabel(/^Maximum age/).fill('1d')
  await dialog.getByLabel(/^Records per/).fill('1000')
  await dialog.getByLabel(/^Bytes per/).fill('4MiB')
  await shows(dialog, 'floe stream create -n shop --partitions 2 --max-age 1d --max-len 1000 --max-bytes 4MiB e2e-writes')
  await press(dialog, 'Create')
  await h1(p, 'e2e-writes')
  await press(p, 'Append')
  await dialog.getByLabel('Payload').fill('{"n":1}')
  await dialog.getByLabel(/^Key/).fill('k')
  await shows(dialog, `floe stream append -n shop --key k e2e-writes '{"n":1}'`)
  await press(dialog, 'Append')
  await said(p, /^Record \d+-\d+ appended/)
  await p.getByRole('row', { name: /"n":1/ }).waitFor()
  await press(p, 'Retention')
  expect(await dialog.getByLabel(/^Maximum age/).inputValue()).toBe('1d')
  await dialog.getByLabel(/^Maximum age/).fill('0')
  await dialog.getByLabel(/^Records per/).fill('10')
  await dialog.getByLabel(/^Bytes per/).fill('0')
  await shows(dialog, 'floe stream configure -n shop --max-age 0s --max-len 10 --max-bytes 0 e2e-writes')
  await press(dialog, 'Save')
  await said(p, 'Retention of stream e2e-writes saved.')
  expect(await api('/console/streams/e2e-writes?namespace=shop')).toMatchObject({ retention: { max_age_ms: 0, max_len: 10, max_bytes: 0 } })
  await api('/streams/e2e-writes/groups/late?namespace=shop', 'PUT', '{"start":"latest"}')
  const lag = async () => ((await api('/streams/e2e-writes/groups/late?namespace=shop')) as { lag: number }).lag
  expect(await lag()).toBe(0)
  await to(p, '#/shop/streams/e2e-writes?tab=groups&group=late')
  await press(p, 'Move the group')
  await shows(dialog, 'floe stream group seek -n shop e2e-writes late beginning')
  await dialog.getByLabel('Partition').selectOption('1')
  await dialog.getByLabel('Position').selectOption('at')
  await dialog.getByLabel(/^ID or time/).fill('yesterday')
  await dialog.getByText('Enter the ID of a record or a time.').waitFor()
  await dialog.getByLabel(/^ID or time/).fill('2026-01-31T12:00Z')
  await shows(dialog, 'floe stream group seek -n shop --partition 1 e2e-writes late 1769860800000')
  await dialog.getByLabel('Position').selectOption('earliest')
  await dialog.getByLabel('Partition').selectOption('')
  await press(dialog, 'Move the group')
  await said(p, 'Group late moved.')
  expect(await lag()).toBe(1)
})

test('writes: the retention of a measurement', async () => {
  await api('/timeseries/write?namespace=shop', 'POST', 'e2e_writes value=1')
  const p = await open(at.root + '#/shop/ts/e2e_writes')
  const dialog = p.getByRole('dialog')
  await press(p, 'Retention')
  await dialog.getByLabel(/^Retention of raw/).fill('7d')
  await shows(dialog, 'floe ts retention -n shop --raw-ttl 7d e2e_writes')
  await press(dialog, 'Save')
  await said(p, 'Retention of measurement e2e_writes saved.')
  expect(await api('/timeseries/e2e_writes/retention?namespace=shop')).toMatchObject({ raw_ttl_ms: 7 * 86_400_000 })
})

test('writes: a namespace is created', async () => {
  const p = await open(at.root + '#/shop/overview')
  const dialog = p.getByRole('dialog')
  await press(p, 'New namespace')
  await dialog.getByLabel('Name').fill('e2e-made')
  await shows(dialog, 'floe ns create e2e-made')
  await press(dialog, 'Create')
  await p.getByText('All clear in namespace e2e-made').waitFor()
})

const copyOf = (name: string, condition: string) => `kind: Processing
name: ${name}
sources:
  - name: orders
    stream: { name: orders, partitions: all, start: latest }
operators:
  - name: some
    type: filter
    condition: "${condition}"
sinks:
  - name: out
    stream: { name: ${name}-out }
`

test('writes: a job is saved, stopped, resumed, restored and changed', async () => {
  await api('/processing/jobs?namespace=shop', 'POST', copyOf('e2e-writes', 'json:$.cents>1'))
  const p = await open(at.root + (await address('#/shop/processing/e2e-writes?tab=savepoints')))
  const dialog = p.getByRole('dialog')
  await h1(p, 'e2e-writes')
  const id = decodeURIComponent(p.url().split('/').pop()!.split('?')[0]!)
  await p.locator('.head').getByText('running').waitFor()
  await act(p, 'Create a savepoint', `floe processing savepoint -n shop ${id}`)
  const row = p.locator('table.plain tbody tr').first()
  const savepoint = (await row.locator('td').first().textContent())!
  expect(await row.getByRole('button', { name: 'Restore' }).isDisabled()).toBe(true)
  await press(p, 'Stop')
  await press(dialog, 'Stop')
  await p.locator('.head').getByText('stopped').waitFor()
  await act(p, 'Resume', `floe processing restore -n shop ${id}`)
  await p.locator('.head').getByText('running').waitFor()
  await press(p, 'Stop')
  await press(dialog, 'Stop')
  await p.locator('.head').getByText('stopped').waitFor()
  await press(p, 'Restore')
  await press(dialog, 'Cancel')
  await act(p, 'Restore', `floe processing restore -n shop ${id} ${savepoint}`)
  await p.locator('.head').getByText('running').waitFor()
  // A job of its name runs: what is submitted can be applied to it.
  const type = async (text: string) => {
    await dialog.locator('.editor .cm-content').click()
    await p.keyboard.press('Control+a')
    await p.keyboard.insertText(text)
  }
  await to(p, '#/shop/processing')
  await press(p, 'Submit a job')
  await type(copyOf('e2e-writes', 'json:$.cents>2'))
  await dialog.getByText('no errors').waitFor()
  await press(dialog, 'Review the change')
  await dialog.locator('[data-test=plan]').getByText('changes the job').waitFor()
  await shows(dialog, 'floe processing apply -n shop -f pipeline.yaml')
  await press(dialog, 'Apply')
  await h1(p, 'e2e-writes')
  await press(p, 'Change')
  await type(copyOf('e2e-writes', 'json:$.cents>3'))
  await dialog.locator('[data-test=plan]').getByText('changes the job').waitFor()
  await press(dialog, 'Apply')
  await dialog.waitFor({ state: 'detached' })
  expect(((await api(`/processing/jobs/${id}?namespace=shop`)) as { yaml: string }).yaml).toContain('cents>3')
})

test('writes: a failed run is retried', async () => {
  await api('/actions/e2e-fails?namespace=shop', 'PUT', '{}')
  await api(
    '/workflow/definitions?namespace=shop',
    'POST',
    'kind: Workflow\nname: e2e-fails\nversion: "1"\nstart:\n  run: "@actions/e2e-fails"\n  transitions: { success: flo.Completed, failure: flo.Failed }\n',
  )
  const { run_id: run } = (await api('/workflow/runs?namespace=shop&workflow=e2e-fails', 'POST', '{}')) as { run_id: string }
  const { runs } = (await api('/workers/e2e/await?namespace=shop', 'POST', '{"actions":["e2e-fails"],"wait_ms":10000}')) as { runs: { run_id: string }[] }
  await api(`/workers/e2e/runs/${runs[0]!.run_id}/fail?namespace=shop`, 'POST', '{"error":"no luck"}')
  const p = await open(at.root + `#/shop/runs/${run}`)
  const dialog = p.getByRole('dialog')
  await p.locator('.head').getByText('failed').waitFor()
  await press(p, 'Retry the run')
  await shows(dialog, `floe workflow retry -n shop ${run}`)
  await dialog.getByLabel('From step').selectOption('_start')
  await shows(dialog, `floe workflow retry -n shop --from-step _start ${run}`)
  await press(dialog, 'Retry the run')
  await said(p, new RegExp(`^Run ${run} is `))
  await p.locator('.head').getByText('failed').waitFor({ state: 'detached' })
})

test('writes: schedules with their next times are paused, resumed and triggered', async () => {
  await api('/actions/ship/schedules/e2e-hourly?namespace=shop', 'PUT', '{"interval_ms":3600000,"input":{"order":1,"item":"cup"}}')
  const p = await open(at.root + '#/shop/schedules')
  await p.getByRole('row', { name: /^report/ }).waitFor()
  await p.getByRole('searchbox', { name: 'Filter by name' }).fill('hourly')
  await p.getByRole('row', { name: /e2e-hourly.*every/ }).click()
  await p
    .locator('[data-test=next]')
    .getByText(/^20\d\d-/)
    .waitFor()
  await act(p, 'Pause', 'floe action schedule pause -n shop ship e2e-hourly')
  await p.locator('[data-test=state]').getByText('paused').waitFor()
  await act(p, 'Resume', 'floe action schedule resume -n shop ship e2e-hourly')
  await p.locator('[data-test=state]').getByText('active').waitFor()
  await act(p, 'Trigger', 'floe action schedule trigger -n shop ship e2e-hourly')
  await said(p, /^Run .* started\./)
  await to(p, '#/shop/workflows/report')
  await p.getByRole('link', { name: /has a schedule/ }).click()
  await act(p, 'Pause', 'floe workflow schedule pause -n shop report')
  await p.locator('[data-test=state]').getByText('paused').waitFor()
  await act(p, 'Resume', 'floe workflow schedule resume -n shop report')
  await p.locator('[data-test=state]').getByText('active').waitFor()
})

test('writes: keys and audit are shown to an admin, without secrets', async () => {
  const p = await open(at.guarded + '#/shop/access')
  allow(/401|404/)
  await signIn(p, at.admin)
  await p.getByRole('row', { name: /write.*warehouse/ }).waitFor()
  for (const key of [at.admin, at.reader, at.narrow]) expect(await p.content()).not.toContain(key.slice(-20))
  await p.getByRole('tab', { name: 'Audit' }).click()
  await p.getByRole('grid', { name: 'Audit entries' }).or(p.getByText('No entries.')).waitFor()
  await p.getByRole('tab', { name: 'Key changes' }).click()
  await p
    .getByRole('row', { name: /create key/ })
    .first()
    .waitFor()
  await p.getByRole('tab', { name: 'Keys' }).click()
  await p.getByRole('button', { name: 'Sign out' }).click()
  await signIn(p, at.reader)
  await p.getByRole('link', { name: 'Overview', exact: true }).waitFor()
  await p.getByRole('link', { name: 'Access' }).waitFor({ state: 'detached' })
})

test('writes: what only the command line does is shown as its complete command', async () => {
  const p = await open(at.root)
  for (const [hash, commands] of [
    ['#/shop/queues/newsletter', ['floe queue purge -n shop newsletter']],
    ['#/shop/streams/orders', ['floe stream trim -n shop --max-len 10000 orders', 'floe stream delete -n shop --force orders']],
    ['#/shop/workflows', ['floe workflow create -n shop -f order.yaml']],
    ['#/shop/workflows/order', ['floe workflow create -n shop -f order.yaml']],
    ['#/shop/runs/order-4207', ["floe workflow signal -n shop order-4207 approval '{}'"]],
  ] as const) {
    await to(p, hash)
    const kept = p.locator('[data-test=by-command]')
    await kept.getByText(commands[0], { exact: true }).waitFor({ state: 'attached' })
    if (!(await kept.evaluate(e => (e as HTMLDetailsElement).open))) await kept.locator('summary').click()
    for (const command of commands) await kept.getByText(command, { exact: true }).waitFor()
  }
})

test('writes: an edit of a key has its condition in the command too', async () => {
  await api('/kv/namespaces/shop/keys/e2e%2Fwrites', 'PUT', '{"value":"one"}')
  const { items } = (await api('/kv/namespaces/shop/get', 'POST', '{"keys":["e2e/writes"]}')) as { items: { revision: number }[] }
  const p = await open(at.root + '#/shop/kv/e2e%2Fwrites')
  await p.locator('.inspector').getByRole('button', { name: 'Edit' }).click()
  await shows(p.getByRole('dialog'), `floe kv set -n shop --if-revision ${items[0]!.revision} e2e/writes one`)
})

test('writes: the refresh goes on when the text that was selected has left the page', async () => {
  const p = await open(at.root + '#/shop/queues/mail', { clock: true })
  const dialog = p.getByRole('dialog')
  await press(p, 'Enqueue')
  await dialog.getByLabel('Payload').fill('selected')
  await p.evaluate(() => getSelection()!.selectAllChildren(document.querySelector('dialog .snippet pre')!))
  await p.keyboard.press('Control+Enter')
  await dialog.waitFor({ state: 'detached' })
  let reads = 0
  p.on('request', r => (reads += r.url().includes('/api/v1/queues/mail') ? 1 : 0))
  await later(p, 7000)
  expect(reads).toBeGreaterThan(2)
})

test('writes: text that is selected in an editor does not stop what is live', async () => {
  const p = await open(at.root + '#/shop/floql?q=cpu%5B6h%5D%20%7C%20avg()', { clock: true })
  await p
    .locator('[data-test=result]')
    .getByText(/ series, /)
    .waitFor()
  await p.getByRole('checkbox', { name: 'Live' }).check()
  await p.locator('.editor .cm-content').click()
  await p.keyboard.press('Control+a')
  await p.keyboard.press('Control+Enter')
  let runs = 0
  p.on('request', r => (runs += r.method() === 'POST' ? 1 : 0))
  await later(p, 11_000)
  expect(runs).toBeGreaterThan(1)
})
