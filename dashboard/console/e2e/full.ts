// What holds for every screen, and what it may cost: the long form.
import { expect, test } from 'vitest'
import { allow, at, h1, later, open, settled, theContext, to } from './browser'
import { address, views } from './views'

test('every screen: a link to it opens it, and it is the same after a reload', { timeout: 240_000 }, async () => {
  const wrong: string[] = []
  for (const [name, hash] of views) {
    const url = at.prefix + (await address(hash))
    const p = await open(url)
    await settled(p)
    const before = await p.locator('#main h1').innerText()
    await p.reload()
    await settled(p)
    if ((await p.locator('#main h1').innerText()) !== before || p.url() !== url) wrong.push(`${name}: ${before} at ${url} became ${p.url()}`)
    if ((await p.getByRole('alert').count()) > 0) wrong.push(`${name}: ${await p.getByRole('alert').first().innerText()}`)
  }
  expect(wrong).toEqual([])
})

test('every screen: a node that can not be reached blanks nothing, what is shown says its age, and it comes back', { timeout: 240_000 }, async () => {
  const wrong: string[] = []
  for (const [name, hash] of views.filter(([, h]) => h.startsWith('#/shop/'))) {
    const p = await open(at.root + (await address(hash)), { clock: true })
    allow(/ERR_INTERNET_DISCONNECTED|Failed to load/)
    await p.locator('#main .panel').first().waitFor()
    await settled(p)
    const panels = await p.locator('#main .panel').count()
    await theContext().setOffline(true)
    await p.clock.runFor(60_000)
    await p.keyboard.press('r')
    await p.getByText('unreachable').waitFor()
    await p.clock.runFor(60_000)
    try {
      await p.getByText('Not up to date').first().waitFor({ timeout: 3000 })
    } catch {
      wrong.push(`${name}: nothing says that it is old`)
    }
    if ((await p.locator('#main .panel').count()) < panels) wrong.push(`${name}: a part is gone`)
    if ((await p.getByRole('alert').count()) > 0) wrong.push(`${name}: ${await p.getByRole('alert').first().innerText()}`)
    await theContext().setOffline(false)
    await p.getByRole('button', { name: 'Refresh now' }).click()
    await p.getByText('unreachable').waitFor({ state: 'detached' })
    await p.clock.runFor(2000)
    if ((await p.getByText('Not up to date').count()) > 0) await p.getByText('Not up to date').first().waitFor({ state: 'detached' })
  }
  expect(wrong).toEqual([])
})

test('every screen: keys alone reach it, its list, and what is in it', { timeout: 120_000 }, async () => {
  const p = await open(at.root + '#/shop/overview')
  await h1(p, 'Overview')
  const wrong: string[] = []
  for (const [key, title] of [
    ['k', 'KV'],
    ['s', 'Streams'],
    ['q', 'Queues'],
    ['t', 'Time series'],
    ['a', 'Actions'],
    ['w', 'Workers'],
    ['p', 'Processing'],
    ['l', 'Workflows'],
  ] as const) {
    await p.keyboard.press('g')
    await p.keyboard.press(key)
    await h1(p, title)
    const grid = p.getByRole('grid').first()
    await grid.getByRole('row').nth(1).waitFor()
    await grid.focus()
    await p.keyboard.press('j')
    await p.keyboard.press('Enter')
    try {
      await p.waitForFunction(() => /^#\/shop\/[a-z]+\/./.test(location.hash), undefined, { timeout: 4000 })
    } catch {
      wrong.push(`${title}: Enter opened nothing`)
    }
  }
  expect(wrong).toEqual([])
})

test('every screen: at most three requests a second while it is live', { timeout: 240_000 }, async () => {
  const wrong: string[] = []
  const p = await open(at.root + '#/shop/overview', { clock: true })
  let reads = 0
  p.on('request', r => (reads += r.url().includes('/api/') ? 1 : 0))
  for (const [name, hash] of views) {
    await to(p, await address(hash))
    await settled(p)
    const first = reads
    await later(p, 10_000, 500)
    if (reads - first > 30) wrong.push(`${name}: ${reads - first} requests in 10 s`)
  }
  expect(wrong).toEqual([])
})
