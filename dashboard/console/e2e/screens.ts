import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { accessible, allow, at, fits, full, h1, later, open, settled, shot, signIn, to, write } from './browser'
import { address, views } from './views'

const pipeline = (type: string) => `kind: Processing
name: e2e
sources:
  - name: orders
    stream: { name: imports }
operators:
  - name: some
    type: ${type}
    condition: "json:$.cents>10000"
sinks:
  - name: out
    stream: { name: e2e-out }
`

const api = async (path: string, init?: RequestInit) => (await fetch(at.root + 'api/v1' + path, init)).json() as Promise<unknown>

test('queues: enqueue, look, requeue and delete dead letters', async () => {
  const p = await open(at.root + '#/shop/queues/newsletter')
  await h1(p, 'newsletter')
  const dialog = p.getByRole('dialog')
  await p.getByRole('button', { name: 'Enqueue' }).click()
  await dialog.getByLabel('Payload').fill('{"to":"e2e"}')
  await dialog.getByLabel(/Priority/).fill('0')
  await dialog.getByRole('button', { name: 'Enqueue' }).click()
  await p.getByText(/enqueued in newsletter/).waitFor()
  await p.getByRole('row', { name: /"to":"e2e"/ }).click()
  await p.getByText('0 urgent').first().waitFor()
  await p.getByRole('tab', { name: /^Dead/ }).click()
  await p.getByText('paused', { exact: true }).waitFor()
  await p.locator('[data-test=reasons]').getByText('550 no such address').waitFor()
  await p
    .getByRole('row', { name: /mailbox is full/ })
    .first()
    .click()
  await p.locator('[data-test=reason]').getByText('552 the mailbox is full').waitFor()
  await p.keyboard.press('Escape')
  const before = ((await api('/queues/newsletter?namespace=shop')) as { dlq_count: number }).dlq_count
  await p.getByLabel('Select 1', { exact: true }).check()
  await p.getByLabel('Select 2', { exact: true }).check()
  await p.getByRole('button', { name: 'Requeue selected' }).click()
  await dialog.getByRole('button', { name: 'Requeue 2' }).click()
  await dialog.getByText('2 of 2 requeued').waitFor()
  await dialog.locator('footer').getByRole('button', { name: 'Close' }).click()
  expect(((await api('/queues/newsletter?namespace=shop')) as { dlq_count: number }).dlq_count).toBe(before - 2)
  await p.getByRole('row', { name: /^3/ }).first().or(p.locator('.rows-row').first()).first().click()
  await p.locator('.inspector').getByRole('button', { name: 'Delete' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await p.getByText(/deleted\./).waitFor()
  expect(((await api('/queues/newsletter?namespace=shop')) as { dlq_count: number }).dlq_count).toBe(before - 3)
})

test('queues: one who leaves ticked rows behind is not left without news', async () => {
  const p = await open(at.root + '#/shop/queues/newsletter?state=dlq', { clock: true })
  await p.locator('.rows-row input').first().check()
  await p.getByText('1 selected, refresh paused').waitFor()
  await to(p, '#/shop/queues')
  await settled(p)
  let reads = 0
  p.on('request', r => (reads += r.url().includes('/api/v1/queues') ? 1 : 0))
  await later(p, 6000)
  expect(reads).toBeGreaterThan(1)
})

test('streams: tape, messages, groups', async () => {
  const p = await open(at.root + '#/shop/streams/imports')
  await p.getByRole('slider', { name: 'Activity over time' }).waitFor()
  await p.getByText(/^600 records between/).waitFor()
  const [last] = (await api('/streams/imports/messages?namespace=shop&tail=true&limit=1')) as { id_ms: number; id_seq: number }[]
  expect(await p.locator('.rows-row span[title]').first().getAttribute('title')).toBe(`${last!.id_ms}-${last!.id_seq}`)
  await p.getByRole('slider').focus()
  await p.keyboard.press('ArrowRight')
  await p.getByText(/from the selected time on/).waitFor()
  await p.getByRole('row', { name: /lamp/ }).first().click()
  await p.locator('.inspector').getByText('products.csv').waitFor()
  await p.getByRole('tab', { name: /^Groups/ }).click()
  await p.getByRole('row', { name: /catalogue/ }).click()
  const group = (await api('/streams/imports/groups/catalogue?namespace=shop')) as { lag: number }
  expect(await p.locator('[data-test=lag]').innerText()).toBe(String(group.lag))
})

test('streams: a stream that is loading is accessible, a missing one has one message', async () => {
  const p = await open(at.root + '#/about')
  allow(/404/)
  let answer = () => {}
  const answered = new Promise<void>(done => (answer = done))
  await p.route('**/api/v1/streams/imports?**', async r => {
    await answered
    await r.continue()
  })
  await to(p, '#/shop/streams/imports')
  await p.locator('#main .skeleton').first().waitFor()
  await accessible(p, 'a stream that is loading')
  answer()
  await settled(p)
  await to(p, '#/shop/streams/no-such-stream')
  await p.getByText('Stream no-such-stream does not exist in namespace shop.').waitFor()
  expect(await p.getByRole('tab').count()).toBe(0)
  expect(await p.getByText(/deleted/).count()).toBe(0)
  await to(p, '#/shop/streams/orders?tab=groups&group=no-such-group')
  await p.getByText('This group does not exist.').waitFor()
  await settled(p)
  expect(await p.getByRole('alert').count()).toBe(0)
})

test('time series: a chart, a table, a query with an error that points, ingest', async () => {
  const p = await open(at.root + '#/shop/ts/cpu?range=6h')
  await p.locator('.chart canvas').first().waitFor()
  await p
    .getByText(/mean per 1m$/)
    .first()
    .waitFor()
  expect(await p.locator('#main .snippet').innerText()).toContain('[6h] | window(1m) |')
  await p.getByRole('button', { name: 'Table' }).click()
  await p.getByRole('region', { name: 'Points of usage' }).waitFor()
  await to(p, '#/shop/floql?q=' + encodeURIComponent('cpu[6h] | window(1h) | group_by(host) | avgg()'))
  allow(/400/)
  await p
    .getByText(/unknown stage/)
    .first()
    .waitFor()
  await p.locator('.editor').locator('.cm-lintRange-error').waitFor()
  await to(p, '#/shop/floql?q=' + encodeURIComponent('cpu[6h] | field(usage) | window(1h) | group_by(host) | avg()'))
  await p
    .locator('[data-test=result]')
    .getByText(/^3 series/)
    .waitFor()
  await p.getByRole('button', { name: /host=web-01/ }).waitFor()
  await to(p, '#/shop/ts')
  await p.getByRole('button', { name: 'Write points' }).click()
  await write(p.locator('.editor .cm-content'), 'e2e,host=a value=1\nbroken')
  await p.getByText('missing fields').first().waitFor()
  await write(p.locator('.editor .cm-content'), 'e2e,host=a value=1')
  await p.getByRole('button', { name: 'Write 1' }).click()
  await p.getByText('1 point written.').waitFor()
  await p.getByRole('row', { name: /e2e/ }).waitFor()
})

test('actions: invoke and follow, register is a command', async () => {
  const p = await open(at.root + '#/shop/actions/ship')
  await p.getByRole('button', { name: 'Invoke' }).click()
  await write(p.locator('.editor .cm-content'), '{"order":77,"item":"cup"}')
  await p.keyboard.press('Control+Enter')
  await p.locator('[data-test=status]').getByText('completed').waitFor()
  await p.getByText('"p-77-cup"').waitFor()
  await to(p, '#/shop/actions')
  await p.getByRole('button', { name: 'How to register an action' }).click()
  await p.getByLabel('Name', { exact: true }).fill("it's")
  await p.getByText("floe action register -n shop 'it'\\''s'").waitFor()
})

test('workflows: a run with its path and timeline, start, cancel, disable and enable', async () => {
  const p = await open(at.root + '#/shop/runs/order-4203')
  await p.locator('[data-test=steps]').getByText('charge').waitFor()
  await p
    .locator('.timeline-row', { hasText: 'approve' })
    .getByText(/waited for a signal/)
    .waitFor()
  await p.locator('.node.at', { hasText: 'approve' }).waitFor()
  await p.getByRole('button', { name: 'Cancel the run' }).click()
  await p.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await p.getByText('Run order-4203 cancelled.').waitFor()
  await to(p, '#/shop/workflows/order')
  await h1(p, 'order')
  await p.getByRole('button', { name: 'Start a run' }).click()
  await write(p.locator('.editor .cm-content'), '{"order":100,"customer":"c-1","cents":100,"items":["cup"],"payment":"card"}')
  await p.keyboard.press('Control+Enter')
  await p
    .getByText(/started\./)
    .first()
    .waitFor()
  await p.locator('.head').getByText('completed').waitFor()
  await to(p, '#/shop/workflows/order')
  for (const verb of ['Disable', 'Enable']) {
    await p.getByRole('button', { name: verb, exact: true }).click()
    await p.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click()
    await p.getByText(`Workflow order ${verb.toLowerCase()}d.`).waitFor()
  }
})

test('processing: graph, stop, and a pipeline that is checked', async () => {
  const p = await open(at.root + '#/shop/processing')
  await p.getByRole('link', { name: 'large-orders', exact: true }).click()
  await h1(p, 'large-orders')
  await p.getByRole('button', { name: /only-large/ }).click()
  await p.getByText('only-large, line 7').waitFor()
  await p.getByRole('button', { name: 'Stop' }).click()
  await p.getByRole('dialog').getByText('restored from a savepoint').waitFor()
  await p.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await p.locator('.head').getByText('stopped').waitFor()
  await to(p, '#/shop/processing')
  await p.getByRole('button', { name: 'Submit a job' }).click()
  await p.getByRole('dialog').locator('.editor .cm-content').waitFor()
  await p.getByRole('dialog').getByText('no errors').waitFor()
  // What is typed is read by the node: a mistake is marked at its line, and with it mended the graph is drawn again.
  await p.getByRole('dialog').locator('.editor .cm-content').click()
  await p.keyboard.press('Control+a')
  await p.keyboard.insertText(pipeline('fliter'))
  await p.getByRole('dialog').getByText('did you mean filter?').waitFor()
  await p.getByRole('dialog').locator('.editor .cm-lint-marker-error').waitFor()
  expect(await p.getByRole('dialog').getByRole('button', { name: 'Submit' }).isDisabled()).toBe(true)
  await p.keyboard.press('Control+a')
  await p.keyboard.press('Shift+ArrowLeft')
  await p.keyboard.press('Delete')
  await p.keyboard.press('Control+a')
  await p.keyboard.insertText(pipeline('filter'))
  await p.getByRole('dialog').getByText('no errors').waitFor()
  await p.keyboard.press('Control+Enter')
  await h1(p, 'e2e')
  await p.locator('.head').getByText('running').waitFor()
  await p.getByRole('button', { name: 'Cancel' }).click()
  await p.getByRole('dialog').getByText('cannot be restored').waitFor()
  await p.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click()
  await p.locator('.head').getByText('cancelled').waitFor()
})

test('an editor keeps up with one who types faster than it is drawn', async () => {
  const p = await open(at.root + '#/shop/processing')
  await p.getByRole('button', { name: 'Submit a job' }).click()
  const dialog = p.getByRole('dialog')
  await dialog.locator('.editor .cm-content').click()
  for (let i = 0; i < (full ? 8 : 4); i++) {
    await p.keyboard.press('Control+a')
    await p.keyboard.press('Delete')
    await p.keyboard.insertText(pipeline(`filter${i}`))
    await p.keyboard.press('Control+a')
    await p.keyboard.insertText(pipeline(i % 2 ? 'filter' : 'fliter'))
  }
  await dialog.getByText('no errors').waitFor()
})

test('what is typed while what was typed before comes back stays', async () => {
  const p = await open(at.root + '#/shop/kv')
  const box = p.getByRole('searchbox')
  await settled(p)
  // The second text comes when the first has changed the address, and before that is drawn.
  await p.evaluate(() => {
    const box = document.querySelector<HTMLInputElement>('#main [data-filter]')!
    const type = (text: string) => {
      box.value = text
      box.dispatchEvent(new Event('input', { bubbles: true }))
    }
    const replace = history.replaceState.bind(history)
    history.replaceState = (...of) => {
      replace(...of)
      if (location.hash.endsWith('prefix=con')) type('config/')
    }
    type('con')
  })
  await p.waitForFunction(() => location.hash.endsWith('prefix=config%2F'))
  expect(await box.inputValue()).toBe('config/')
  await to(p, '#/shop/kv?prefix=count')
  await expect.poll(() => box.inputValue()).toBe('count')
})

test('a query that is run is not put over what was typed', async () => {
  const p = await open(at.root + '#/shop/floql')
  const editor = p.locator('.editor .cm-content')
  await editor.click()
  await p.keyboard.insertText('cpu[1h] | avg()\n')
  await p.keyboard.press('Control+Enter')
  await p
    .locator('[data-test=result]')
    .getByText(/ series, /)
    .waitFor()
  await p.keyboard.insertText('| abs()')
  expect(await editor.locator('.cm-line').allInnerTexts()).toEqual(['cpu[1h] | avg()', '| abs()'])
})

test('processing: operators say what went through them, and a job that failed says why', async () => {
  const p = await open(at.root + '#/shop/processing')
  await p.getByRole('link', { name: 'enrich', exact: true }).click()
  await h1(p, 'enrich')
  const id = decodeURIComponent(p.url().split('/').pop()!)
  await p.getByRole('button', { name: /once.* → / }).waitFor()
  const work = (await api(`/console/processing/jobs/${id}?namespace=shop`)) as { operators: { name: string; in: number }[] }
  const shown = (await p.getByRole('button', { name: /once.* → / }).textContent())!
  expect(Number(/([\d,]+) →/.exec(shown)![1]!.replaceAll(',', ''))).toBeGreaterThan(5)
  expect(work.operators.map(o => o.name)).toEqual(['once', 'who'])
  await p.goBack()
  await p.getByRole('row', { name: /^tax failed .*is no number/ }).waitFor()
  await p.getByRole('link', { name: 'tax', exact: true }).click()
  await p
    .locator('[data-test=reason]')
    .getByText(/is no number/)
    .waitFor()
})

test('workers: the registry record', async () => {
  const p = await open(at.root + '#/shop/workers/batch-7')
  await p.getByText('9007199254740993').waitFor()
  await p.getByText('db-01.example.com').waitFor()
})

for (const theme of full ? (['light', 'dark'] as const) : (['light'] as const)) {
  for (const width of full ? [1280, 400] : [1280]) {
    test(`look: every screen, ${theme}, ${width} px`, { timeout: 240_000 }, async () => {
      const p = await open(at.root, { theme, width })
      const wrong: string[] = []
      for (const [name, hash] of full ? views : views.slice(0, 2)) {
        await to(p, await address(hash))
        await settled(p)
        try {
          await fits(p, name)
          await accessible(p, name)
        } catch (e) {
          wrong.push(`${name}: ${(e as Error).message.slice(0, 900)}`)
        }
        if (full) await shot(p, `${name}-${theme}-${width}`)
      }
      expect(wrong).toEqual([])
    })

    const look = async (p: Page, name: string) => {
      await fits(p, name)
      await accessible(p, name)
      if (full) await shot(p, `${name}-${theme}-${width}`)
    }

    test(`look: the sign-in, ${theme}, ${width} px`, async () => {
      const p = await open(at.guarded + '#/shop/kv/config%2Fmail', { theme, width })
      allow(/401/)
      await h1(p, 'Sign in')
      await look(p, 'sign-in')
      if (full) {
        await signIn(p, 'floe_sk_wrong')
        await p.getByText('Invalid or revoked API key').waitFor()
        await look(p, 'sign-in-refused')
      }
      await signIn(p, at.admin)
      await p.getByRole('button', { name: 'Edit' }).click()
      await p.getByRole('dialog', { name: /^Edit/ }).waitFor()
      // The node does not know the token any more.
      await p.route('**/api/**', r => r.continue({ headers: { ...r.request().headers(), authorization: 'Bearer gone' } }))
      await p.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
      await h1(p, 'Sign in')
      await look(p, 'sign-in-again')
    })

    test(`look: the palette and the help, ${theme}, ${width} px`, async () => {
      const p = await open(at.root + '#/shop/kv/config%2Fmail', { theme, width })
      await settled(p)
      await p.keyboard.press('Control+k')
      const palette = p.getByRole('combobox', { name: /Go to/ })
      await palette.waitFor()
      if (full) await look(p, 'palette')
      await palette.fill('thumb')
      await p
        .getByRole('option', { name: /thumbnails/ })
        .first()
        .waitFor()
      await look(p, 'palette-found')
      await p.keyboard.press('Escape')
      await p.keyboard.press('?')
      await p.getByRole('dialog', { name: 'Keyboard' }).waitFor()
      await look(p, 'help')
    })
  }
}
