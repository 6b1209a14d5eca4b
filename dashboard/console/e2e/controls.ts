// The controls that no story of another test leads to: each does what it says.
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { accessible, allow, at, fits, h1, later, open, settled, to } from './browser'
import { address } from './views'

const copied = (p: Page) => p.evaluate(() => navigator.clipboard.readText())
const button = (p: Page, name: string | RegExp) => p.getByRole('button', { name, exact: typeof name === 'string' })
const press = (p: Page, name: string | RegExp) => button(p, name).first().click()
const tab = (p: Page, name: RegExp) => p.getByRole('tab', { name }).click()
const hash = (p: Page) => decodeURIComponent(new URL(p.url()).hash)
const root = (p: Page, name: string) => p.evaluate(n => document.documentElement.dataset[n], name)

test('shell: its buttons', async () => {
  const p = await open(at.root + '#/shop/overview', { width: 700 })
  await press(p, 'Menu')
  await p.getByRole('navigation').getByRole('link', { name: 'KV' }).click()
  await h1(p, 'KV')
  expect(await p.getByRole('navigation').count()).toBe(0)
  await p.setViewportSize({ width: 1280, height: 800 })
  await press(p, /^Go to/)
  await p.getByRole('option', { name: /FloQL/ }).click()
  await h1(p, 'Time series')
  await p.locator('.refresh select').selectOption('10')
  await press(p, /^Times are local/)
  await press(p, /^Times are UTC/)
  await press(p, /^Theme: system/)
  expect(await root(p, 'theme')).toBe('light')
  await press(p, /^Theme: light/)
  expect(await root(p, 'theme')).toBe('dark')
  await press(p, /^Theme: dark/)
  expect(await root(p, 'theme')).toBe(undefined)
  await press(p, 'Keyboard shortcuts')
  const saved = p.waitForEvent('download')
  await p
    .getByRole('dialog')
    .getByRole('button', { name: /OpenAPI/ })
    .click()
  expect((await saved).suggestedFilename()).toBe('openapi.json')
  await p.getByRole('dialog').getByLabel('Single-key shortcuts').uncheck()
  await p.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
  await p.locator('h1').focus()
  await p.keyboard.press('?')
  expect(await p.getByRole('dialog').count()).toBe(0)
})

test('settings: each is kept and holds at once', async () => {
  const p = await open(at.root + '#/settings')
  await h1(p, 'Settings')
  const pressed = async (name: string) => {
    await p.locator('#main').getByRole('button', { name, exact: true }).click()
    expect(await p.locator('#main').getByRole('button', { name, exact: true }).getAttribute('aria-pressed')).toBe('true')
  }
  for (const name of ['Light', 'Dark', 'System', 'Comfortable', 'Compact', 'UTC', 'Local', '10 s', '60 s', 'Paused', 'Live']) await pressed(name)
  await pressed('Comfortable')
  expect(await root(p, 'density')).toBe('comfortable')
  await p.getByLabel('Single-key shortcuts').uncheck()
  await p.reload()
  expect(await p.getByLabel('Single-key shortcuts').isChecked()).toBe(false)
  expect(await root(p, 'density')).toBe('comfortable')
})

const filters: [string, string, string, RegExp][] = [
  ['streams', 'Filter by name', 'imp', /imports/],
  ['queues', 'Filter by name', 'news', /newsletter/],
  ['ts', 'Filter by name', 'chec', /checkout/],
  ['actions', 'Filter by name or owner', 'logis', /quote/],
  ['workers', 'Filter by id', 'BATCH', /batch-7/],
  ['processing', 'Filter by name or id', 'tax', /tax/],
  ['workflows', 'Filter by name', 'refu', /refund/],
]

test('lists: a filter is in the address, and can be cleared where nothing matches', async () => {
  const p = await open(at.root + '#/shop/overview')
  for (const [screen, box, text, row] of filters) {
    await to(p, `#/shop/${screen}`)
    await p.getByRole('searchbox', { name: box }).fill(text)
    await p.getByRole('row', { name: row }).waitFor()
    expect(await p.locator('.rows-row').count()).toBeLessThan(5)
    expect(hash(p)).toContain(`filter=${text}`)
    await p.getByRole('searchbox', { name: box }).fill('no such thing')
    await press(p, 'Clear filter')
    await p.getByRole('row', { name: row }).waitFor()
    expect(hash(p)).not.toContain('filter')
  }
  await to(p, '#/shop/queues')
  await p.getByRole('columnheader', { name: 'Dead' }).getByRole('button').click()
  expect(hash(p)).toContain('sort=-dead')
  await expect.poll(() => p.locator('.rows-row').first().innerText()).toMatch(/^mail|^newsletter/)
})

/** Buttons that open a dialog, by the view that has them. */
const dialogs: [string, string][] = [
  ['#/shop/kv', 'New key'],
  ['#/shop/kv/config%2Fmail', 'Edit'],
  ['#/shop/kv/config%2Fmail', 'Delete'],
  ['#/shop/queues', 'Enqueue'],
  ['#/shop/queues/thumbnails', 'Enqueue'],
  ['#/shop/queues/thumbnails', 'Pause'],
  ['#/shop/queues/thumbnails', 'Settings'],
  ['#/shop/queues/newsletter?state=dlq', 'Requeue all'],
  ['#/shop/streams', 'New stream'],
  ['#/shop/streams/orders', 'Append'],
  ['#/shop/streams/orders', 'Retention'],
  ['#/shop/streams/orders?tab=groups&group=search', 'Move the group'],
  ['#/shop/overview', 'New namespace'],
  ['#/shop/schedules?schedule=workflow%2Freport', 'Pause'],
  ['#/shop/processing/enrich', 'Change'],
  ['#/shop/processing/tax', 'Resume'],
  ['#/shop/processing/enrich?tab=savepoints', 'Create a savepoint'],
  ['#/shop/runs/order-4202', 'Retry the run'],
  ['#/shop/ts/checkout', 'Retention'],
  ['#/shop/ts', 'Write points'],
  ['#/shop/actions/ship', 'Invoke'],
  ['#/shop/processing/enrich', 'Stop'],
  ['#/shop/processing/enrich', 'Cancel'],
  ['#/shop/processing', 'Submit a job'],
  ['#/shop/workflows/refund', 'Disable'],
  ['#/shop/workflows/nightly-report', 'Enable'],
  ['#/shop/workflows/refund', 'Start a run'],
  ['#/shop/runs/order-4207', 'Cancel the run'],
]

test('dialogs: Cancel and Close change nothing, and nobody is shut out', { timeout: 120_000 }, async () => {
  const p = await open(at.root + '#/shop/overview')
  const writes: string[] = []
  p.on('request', r => {
    if (r.method() !== 'GET' && !/\/validate|\/plan|\/shop\/get/.test(r.url())) writes.push(r.url())
  })
  const dialog = p.getByRole('dialog')
  for (const [where, name] of dialogs) {
    await to(p, await address(where))
    for (const way of ['Cancel', 'Close']) {
      await p.locator('#main').getByRole('button', { name, exact: true }).click()
      if (way === 'Cancel') {
        await dialog.locator('.skeleton').waitFor({ state: 'detached' })
        // The first field has the focus, and Close comes last.
        await expect
          .poll(() =>
            p.evaluate(() => {
              const field = document.querySelector('dialog[open] .dialog-body :is(input, select, textarea, [data-editor])')
              return field === null || field === document.activeElement
            }),
          )
          .toBe(true)
        expect(await dialog.locator('button').last().getAttribute('aria-label')).toBe('Close')
        await fits(p, `${where}: ${name}`)
        await accessible(p, `${where}: ${name}`)
      }
      await dialog.getByRole('button', { name: way, exact: true }).click()
      await dialog.waitFor({ state: 'detached' })
    }
  }
  expect(writes).toEqual([])
})

test('kv: groups, expiry, a conflict in which one takes theirs', async () => {
  const p = await open(at.root + '#/shop/kv')
  const dialog = p.getByRole('dialog')
  await p.getByLabel('Group by').selectOption('/')
  await p.getByRole('row', { name: /session\/….*keys/ }).waitFor()
  await p.getByLabel('Group by').selectOption('')
  await press(p, 'New key')
  await dialog.getByLabel('Key', { exact: true }).fill('e2e/second')
  await dialog.getByLabel('Value').fill('first')
  await dialog.getByRole('button', { name: 'Set' }).click()
  await dialog.getByRole('button', { name: 'None' }).click()
  await dialog.getByLabel('Only if the key does not exist').uncheck()
  expect(await dialog.locator('.snippet').innerText()).not.toMatch(/ttl|if-absent/)
  await dialog.getByRole('button', { name: 'Set' }).click()
  await dialog.getByRole('button', { name: 'Write' }).click()
  await p.locator('.toast').getByRole('button', { name: 'Dismiss' }).click()
  expect(await p.locator('.toast').count()).toBe(0)
  await to(p, '#/shop/kv/e2e%2Fsecond')
  await p.locator('.inspector').getByRole('button', { name: 'Edit' }).click()
  for (const [name, command] of [
    ['Set', /--ttl 3600s/],
    ['None', /set -n shop --if-revision \d+ e2e/],
    ['Keep', /--ttl \d+s/],
  ] as const) {
    await dialog.getByRole('button', { name }).click()
    expect(await dialog.locator('.snippet').innerText()).toMatch(command)
  }
  await dialog.getByRole('button', { name: 'Set' }).click()
  await dialog.getByLabel('Seconds').fill('60')
  await dialog.locator('.snippet').getByText('--ttl 60s').waitFor()
  await dialog.getByLabel('Value').fill('mine')
  await fetch(at.root + 'api/v1/kv/namespaces/shop/keys/e2e%2Fsecond', { method: 'PUT', body: '{"value":"theirs"}' })
  allow(/409/)
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByRole('button', { name: 'Edit the current value' }).click()
  expect(await dialog.getByLabel('Value').inputValue()).toBe('theirs')
})

test('payload: as what it is shown, copied and kept; the details beside the list', async () => {
  const p = await open(at.root + '#/shop/kv/config%2Fcheckout')
  const inspector = p.locator('.inspector')
  const lines = inspector.locator('.lines').first()
  await lines.waitFor()
  for (const [name, begins] of [
    ['Text', /^{"currency"/],
    ['Hex', /7b 22 63/],
    ['Base64', /^eyJjdXJ/],
    ['JSON', /^{\n/],
    ['Auto', /^{\n/],
  ] as const) {
    await inspector.getByRole('button', { name, exact: true }).click()
    await expect.poll(() => lines.innerText()).toMatch(begins)
  }
  await inspector.getByRole('button', { name: 'Wrap' }).click()
  expect(await lines.getAttribute('class')).toBe('lines')
  await inspector.getByRole('button', { name: 'Copy the value' }).click()
  await expect.poll(() => copied(p)).toContain('9007199254740993')
  const download = p.waitForEvent('download')
  await inspector.getByRole('button', { name: 'Download the value' }).click()
  expect((await download).suggestedFilename()).toBe('config_checkout')
  await inspector.locator('.moment').click()
  await expect.poll(() => copied(p)).toMatch(/^\d{4}-\d\d-\d\dT/)
  await inspector.locator('.snippet button').first().click()
  await expect.poll(() => copied(p)).toBe('floe kv get -n shop config/checkout')
  await inspector.getByRole('button', { name: 'Copy', exact: true }).click()
  await expect.poll(() => copied(p)).toBe('config/checkout')
  await tab(p, /^History/)
  await tab(p, /^Value/)
  const width = (await inspector.boundingBox())!.width
  await p.getByRole('separator').press('ArrowRight')
  await expect.poll(async () => (await inspector.boundingBox())!.width).toBeLessThan(width)
  await inspector.getByRole('button', { name: 'Close' }).click()
  await inspector.waitFor({ state: 'detached' })
  expect(await p.evaluate(() => document.activeElement?.getAttribute('role'))).toBe('grid')
})

test('queues: its tabs, a message with a delay, many dead letters, of which one thinks better', async () => {
  const p = await open(at.root + '#/shop/queues')
  const dialog = p.getByRole('dialog')
  await press(p, 'Enqueue')
  await dialog.getByLabel('Queue').fill('e2e-delayed')
  await dialog.getByLabel('Payload').fill('later')
  await dialog.getByLabel(/Delay/).fill('3600')
  await dialog.getByLabel(/Priority/).fill('7')
  await dialog.getByRole('button', { name: 'Enqueue', exact: true }).click()
  await h1(p, 'e2e-delayed')
  await p.getByRole('tab', { name: /1 delayed/ }).waitFor()
  await tab(p, /^In flight/)
  await p.getByText('No messages in flight.').waitFor()
  await tab(p, /^Ready/)
  await p.getByRole('row', { name: /later/ }).waitFor()
  await to(p, '#/shop/queues/newsletter?state=dlq')
  await p.locator('.rows-head input').check()
  for (const what of ['Requeue selected', 'Delete selected'])
    for (const way of ['Cancel', 'Close']) {
      await press(p, what)
      await dialog.getByRole('button', { name: way, exact: true }).click()
      await p.locator('.rows-head input').check()
    }
  // The node answers when it is told to: after the first one it is stopped.
  let answer = () => {}
  let asked = 0
  await p.route('**/dlq/*', async r => {
    asked++
    await new Promise<void>(done => (answer = done))
    await r.fulfill({ json: {} })
  })
  await press(p, 'Delete selected')
  await dialog.getByRole('button', { name: /^Delete \d/ }).click()
  await expect.poll(() => asked).toBe(1)
  await dialog.locator('.dialog-close').click()
  await dialog.getByRole('button', { name: 'Stop' }).click()
  answer()
  await dialog.getByText(/^1 of \d+ deleted/).waitFor()
  expect(asked).toBe(1)
  await dialog.locator('.dialog-close').click()
  await p.unroute('**/dlq/*')
  await p.getByRole('row').nth(1).click()
  for (const what of ['Requeue', 'Delete'])
    for (const way of ['Cancel', 'Close']) {
      await p.locator('.inspector').getByRole('button', { name: what, exact: true }).click()
      await dialog.getByRole('button', { name: way, exact: true }).click()
    }
  const seq = new URLSearchParams(hash(p).split('?')[1]).get('seq')
  await p.locator('.inspector').getByRole('button', { name: 'Requeue', exact: true }).click()
  await dialog.getByRole('button', { name: 'Requeue', exact: true }).click()
  await p.getByText(`Dead letter ${seq} requeued.`).waitFor()
})

test('streams: the tape, what is found, the parts', async () => {
  const p = await open(at.root + '#/shop/streams/imports')
  await p.getByText(/^600 records between/).waitFor()
  await press(p, 'Bytes')
  await p.locator('.tape-head').getByText(/KiB/).first().waitFor()
  await press(p, 'Records')
  for (const range of ['15m', '1h', '6h', '1d', '7d']) {
    await press(p, range)
    expect(hash(p)).toContain(`range=${range}`)
  }
  await press(p, 'All')
  await p.getByLabel('By partition').check()
  await expect.poll(() => p.getByRole('slider').count()).toBe(4)
  expect(hash(p)).toContain('rows=1')
  await p.getByRole('slider', { name: 'Activity of partition 2' }).press('ArrowRight')
  expect(hash(p)).toContain('from=')
  await p.getByLabel('By partition').uncheck()
  await press(p, 'Clear the selection')
  await p.getByRole('slider').press('ArrowRight')
  await press(p, 'Clear the selection')
  expect(hash(p)).not.toContain('from=')
  await p.getByRole('slider').press('ArrowRight')
  await press(p, 'Latest')
  await p.getByText('the last 200').waitFor()
  await p.getByRole('searchbox', { name: 'Search loaded records' }).fill('lamp')
  await p.getByRole('row', { name: /lamp/ }).first().click()
  await p.getByRole('button', { name: 'Copy the key' }).click()
  await expect.poll(() => copied(p)).not.toBe('')
  await p.getByRole('searchbox', { name: 'Search loaded records' }).fill('')
  await p.getByLabel('Follow').check()
  expect(hash(p)).toContain('follow=1')
  await p.getByLabel(/^Partition/).selectOption('2')
  expect(hash(p)).toContain('p=2')
  await tab(p, /^Partitions/)
  await p.getByRole('region', { name: 'Table of partitions' }).waitFor()
  await tab(p, /^Groups/)
  await p.getByRole('row', { name: /catalogue/ }).waitFor()
  await tab(p, /^Messages/)
  await p.getByRole('grid', { name: 'Messages' }).waitFor()
})

test('streams: without counts by time the tape is of what is loaded', async () => {
  const p = await open(at.root)
  allow(/404/)
  await p.route('**/activity?**', r => r.fulfill({ status: 404, json: { error: 'no such endpoint' } }))
  await to(p, '#/shop/streams/imports')
  await p.getByText('showing the last 200').waitFor()
  await p.getByText(/^200 records between/).waitFor()
})

test('streams: following shows all that comes, however much', async () => {
  const p = await open(at.root + '#/shop/streams/flood?follow=1', { clock: true })
  await p.locator('[data-test=loaded]').getByText('the last 200').waitFor()
  await fetch(at.flood)
  await later(p, 8000)
  await p.locator('[data-test=loaded]').getByText('the last 1,200').waitFor()
})

test('runs: those that come in above do not push what is being read', async () => {
  const p = await open(at.root + '#/shop/workflows/order')
  await settled(p)
  const grid = p.getByRole('grid', { name: 'Runs' })
  await grid.evaluate(e => (e.scrollTop = 420))
  const top = () =>
    grid.evaluate(e => {
      const edge = e.querySelector('.rows-head')!.getBoundingClientRect().bottom
      return [...e.querySelectorAll('.rows-row')].find(r => r.getBoundingClientRect().top >= edge - 1)!.querySelector('[role=gridcell]')!.textContent
    })
  const before = await top()
  const pill = p.getByRole('button', { name: /^\d+ new$/ })
  await pill.waitFor()
  expect(await top()).toBe(before)
  await pill.click()
  await expect.poll(() => grid.evaluate(e => e.scrollTop)).toBe(0)
  await pill.waitFor({ state: 'detached' })
})

test('links: what is copied is of the hour that is seen; the first link leads past the menu', async () => {
  const p = await open(at.root + '#/shop/ts/cpu?range=6h')
  await settled(p)
  await p.keyboard.press('c')
  await expect.poll(() => copied(p)).toMatch(/range=\d{13}\.\.\d{13}$/)
  await p.locator('.skip').focus()
  await p.keyboard.press('Enter')
  expect(await p.evaluate(() => document.activeElement?.tagName)).toBe('H1')
})

test('charts: a drag zooms, a double click goes back', async () => {
  const p = await open(at.root + '#/shop/ts/cpu?range=6h')
  const plot = p.locator('.chart .u-over').first()
  await plot.waitFor()
  await settled(p)
  const box = (await plot.boundingBox())!
  await p.mouse.move(box.x + 100, box.y + 40)
  await p.mouse.down()
  await p.mouse.move(box.x + 300, box.y + 40, { steps: 4 })
  await p.mouse.up()
  await expect.poll(() => hash(p)).toMatch(/range=\d{13}\.\.\d{13}/)
  await settled(p)
  await plot.dblclick()
  await expect.poll(() => hash(p)).not.toContain('range')
})

test('time series: ranges, fields and tags, the other side of the screen', async () => {
  const p = await open(at.root + '#/shop/ts/cpu')
  await p.locator('.chart canvas').first().waitFor()
  for (const range of ['5m', '15m', '1h', '6h', '1d', '7d']) await press(p, range)
  expect(hash(p)).toContain('range=7d')
  await press(p, 'Table')
  await press(p, 'Chart')
  await p.getByLabel('Field').selectOption('usage')
  await p.getByLabel('host').selectOption('web-01')
  await p.getByLabel('region').selectOption({ index: 1 })
  expect(hash(p)).toMatch(/field=usage&tags=host=web-01,region=\w+/)
  await to(p, '#/shop/ts/cpu?range=1700000000000..1700003600000')
  await press(p, 'Back to now')
  expect(hash(p)).not.toContain('range')
  await to(p, '#/shop/ts/checkout')
  await p.getByLabel('bank').selectOption('southbank')
  expect(hash(p)).toContain('tags=bank=southbank')
  await to(p, '#/shop/ts')
  await tab(p, /^Measurements/)
  await tab(p, /^FloQL/)
  await h1(p, 'Time series')
  await tab(p, /^Measurements/)
  await p.getByRole('grid', { name: 'Measurements' }).waitFor()
  await press(p, 'Write points')
  for (const [unit, flag] of [
    ['ns', 'ns'],
    ['µs', 'us'],
    ['s', 's'],
    ['ms', 'ms'],
  ] as const) {
    await p.getByRole('dialog').getByRole('button', { name: unit, exact: true }).click()
    await p.getByRole('dialog').locator('.snippet').getByText(`--precision ${flag} -`).waitFor()
  }
})

test('floql: run, examples, history, live, a series alone, a table', async () => {
  const p = await open(at.root + '#/shop/floql?q=cpu%5B6h%5D%20%7C%20field(usage)%20%7C%20window(1h)%20%7C%20group_by(host)%20%7C%20avg()', { clock: true })
  const result = p.locator('[data-test=result]')
  await result.getByText(/^3 series/).waitFor()
  const series = p.getByRole('button', { name: /host=web-01/ })
  await series.click()
  expect(await series.getAttribute('aria-pressed')).toBe('true')
  await press(p, 'Table')
  await p.locator('[data-test=points]').waitFor()
  await press(p, 'Chart')
  await p.getByLabel('Examples').selectOption({ index: 1 })
  await press(p, 'Run')
  await result.getByText(/^\d+ series/).waitFor()
  await p.getByRole('checkbox', { name: 'Live' }).check()
  let runs = 0
  p.on('request', r => (runs += r.method() === 'POST' ? 1 : 0))
  await later(p, 11_000)
  expect(runs).toBeGreaterThan(1)
  await p.getByLabel('History').selectOption({ index: 1 })
  await tab(p, /^FloQL/)
  await tab(p, /^Measurements/)
  await p.getByRole('grid', { name: 'Measurements' }).waitFor()
})

test('actions: runs by status, workers, invoked by the button; a command with all that can be said', async () => {
  const p = await open(at.root + '#/shop/actions/charge')
  await p.getByLabel('Status').selectOption('failed')
  expect(hash(p)).toContain('status=failed')
  await p
    .getByRole('row', { name: /failed/ })
    .first()
    .waitFor()
  await tab(p, /^Workers/)
  await p.getByRole('row', { name: /clerk-1/ }).waitFor()
  await tab(p, /^Runs/)
  await to(p, '#/shop/actions/ship')
  await press(p, 'Invoke')
  await p.getByRole('dialog').getByRole('button', { name: 'Invoke' }).click()
  await p.locator('[data-test=status]').waitFor()
  await to(p, '#/shop/actions')
  await press(p, 'How to register an action')
  const dialog = p.getByRole('dialog')
  await dialog.getByLabel('Name', { exact: true }).fill('pack')
  await dialog.getByLabel(/^Timeout/).fill('30s')
  await dialog.getByLabel('Retries').fill('2')
  await dialog.getByLabel('Owner').fill('stock')
  await dialog.getByLabel('Description').fill('wraps it')
  await dialog.getByText("floe action register -n shop --timeout 30s --max-retries 2 --owner stock --description 'wraps it' pack").waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
})

test('actions: a run that waits is begun now, and one that has ended without success is carried out again', async () => {
  const p = await open(at.root + '#/shop/overview')
  const asked = p.getByRole('dialog')
  const find = async (name: string, status: string) => {
    const runs = (await (await fetch(at.root + `api/v1/actions/${name}/runs?namespace=shop`)).json()) as { run_id: string; status: string }[]
    return runs.find(r => r.status === status)?.run_id ?? ''
  }
  for (const [action, status, name, command] of [
    ['scan-invoice', 'pending', 'Run now', 'run-now'],
    ['export', 'failed', 'Retry', 'retry'],
  ] as const) {
    await expect.poll(() => find(action, status)).not.toBe('')
    const run = await find(action, status)
    await to(p, `#/shop/actions/${action}?run=${run}`)
    await press(p, name)
    await asked.getByText(`floe action ${command} -n shop ${run}`).waitFor()
    await asked.getByRole('button', { name }).click()
    await p.getByText(new RegExp(`^Run ${run} is `)).waitFor()
    await asked.waitFor({ state: 'hidden' })
  }
})

test('workers: by type and status', async () => {
  const p = await open(at.root + '#/shop/workers')
  await p.getByLabel('Type').selectOption('queue')
  await p.getByRole('row', { name: /^mail/ }).waitFor()
  expect(await p.getByRole('row', { name: /clerk-1/ }).count()).toBe(0)
  await p.getByLabel('Type').selectOption('')
  await p.getByLabel('Status').selectOption('unhealthy')
  await p.getByRole('row', { name: /batch-7/ }).waitFor()
})

test('processing: the parts of a job', async () => {
  const p = await open(at.root + (await address('#/shop/processing/enrich')))
  await press(p, 'Copy the id')
  await expect.poll(() => copied(p)).toMatch(/^job-/)
  await tab(p, /^Definition/)
  await p.locator('.editor .cm-content').click()
  await press(p, 'Copy the definition')
  await expect.poll(() => copied(p)).toContain('kind: Processing')
  await tab(p, /^Savepoints/)
  await p.getByText('No savepoints.').waitFor()
  await tab(p, /^Graph/)
  await p.getByRole('group', { name: 'Pipeline of enrich' }).waitFor()
  await to(p, '#/shop/processing')
  await press(p, 'Submit a job')
  const dialog = p.getByRole('dialog')
  await dialog.locator('.editor .cm-content').click()
  await p.keyboard.press('Control+Home')
  await dialog.getByText('no errors').waitFor()
  await dialog.getByRole('button', { name: 'Submit' }).click()
  await h1(p, 'large-orders')
})

test('workflows: their parts, runs by status, a start of another version; the steps of a run', async () => {
  const p = await open(at.root + '#/shop/workflows')
  await tab(p, /^All runs/)
  await p.getByLabel('Status').selectOption('completed')
  await p
    .getByRole('row', { name: /completed/ })
    .first()
    .waitFor()
  await tab(p, /^Definitions/)
  await to(p, '#/shop/workflows/order')
  await p.getByLabel('Status').selectOption('failed')
  await p
    .getByRole('row', { name: /failed/ })
    .first()
    .waitFor()
  await tab(p, /^Graph/)
  await p.getByRole('button', { name: /^charge/ }).click()
  await p.locator('.editor .cm-content').click()
  await press(p, 'Copy the definition')
  await expect.poll(() => copied(p)).toContain('kind: Workflow')
  await tab(p, /^Definition/)
  await tab(p, /^Runs/)
  await press(p, 'Start a run')
  const dialog = p.getByRole('dialog')
  await dialog.getByLabel(/^Version/).fill('no-such-version')
  allow(/4\d\d/)
  await dialog.getByRole('button', { name: 'Start' }).click()
  await dialog.getByRole('alert').waitFor()
  await to(p, '#/shop/runs/order-4201')
  await p.locator('.timeline-row', { hasText: 'charge' }).click()
  expect(hash(p)).toContain('step=charge')
  await p.locator('.inspector').getByText('Attempts').waitFor()
  await p.locator('.inspector').getByRole('button', { name: 'Close' }).click()
  await p.locator('[data-test=steps]').getByRole('button', { name: 'ship' }).click()
  expect(hash(p)).toContain('step=ship')
})

test('a read that has failed can be tried again', async () => {
  const p = await open(at.root + '#/about')
  allow(/500/)
  await p.route('**/api/v1/queues?**', r => r.fulfill({ status: 500, json: { error: 'it is on fire' } }))
  await to(p, '#/shop/queues')
  await p.getByText('it is on fire').waitFor()
  await p.unroute('**/api/v1/queues?**')
  await press(p, 'Try again')
  await p.getByRole('row', { name: /mail/ }).waitFor()
})
