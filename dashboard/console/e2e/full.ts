// What holds for every screen, and what it may cost: the long form.
import { expect, test } from 'vitest'
import { allow, at, fits, h1, later, open, settled, theContext, to } from './browser'
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

test('every screen: a node that cannot be reached blanks nothing, what is shown says its age, and it comes back', { timeout: 240_000 }, async () => {
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
      await p.getByText('Out of date').first().waitFor({ timeout: 3000 })
    } catch {
      wrong.push(`${name}: nothing says that it is old`)
    }
    if ((await p.locator('#main .panel').count()) < panels) wrong.push(`${name}: a part is gone`)
    if ((await p.getByRole('alert').count()) > 0) wrong.push(`${name}: ${await p.getByRole('alert').first().innerText()}`)
    await theContext().setOffline(false)
    await p.getByRole('button', { name: 'Refresh now' }).click()
    await p.getByText('unreachable').waitFor({ state: 'detached' })
    await p.clock.runFor(2000)
    if ((await p.getByText('Out of date').count()) > 0) await p.getByText('Out of date').first().waitFor({ state: 'detached' })
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

test('every screen: a window of 320 px, which is one of 1280 px enlarged four times, cuts nothing off', { timeout: 120_000 }, async () => {
  const wrong: string[] = []
  const p = await open(at.root, { width: 320, height: 640 })
  for (const [name, hash] of views) {
    await to(p, await address(hash))
    await settled(p)
    try {
      await fits(p, name)
    } catch (e) {
      wrong.push(`${name}: ${(e as Error).message.slice(0, 400)}`)
    }
  }
  expect(wrong).toEqual([])
})

test('a list of 10,000 rows: few of them are in the page, and the last one is a key away', { timeout: 120_000 }, async () => {
  const p = await open(at.root + '#/plenty/kv?refresh=paused')
  await settled(p)
  const grid = p.getByRole('grid', { name: 'Keys' })
  await grid.focus()
  for (let loaded = 500; loaded < 10_000; loaded += 500) {
    await p.keyboard.press('End')
    await p.getByText(`${(loaded + 500).toLocaleString('en-US')} keys and more`).waitFor()
  }
  await p.getByText('10,000 keys loaded. Enter a longer prefix').waitFor()
  await p.keyboard.press('Home')
  await p.getByRole('row', { name: /key\/00000 / }).waitFor()
  const cdp = await p.context().newCDPSession(p)
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spent = async () => (await cdp.send('Performance.getMetrics')).metrics.find(m => m.name === 'TaskDuration')!.value
  const before = await spent()
  await p.keyboard.press('End')
  await p.getByRole('row', { name: /key\/09999 / }).waitFor()
  const took = (await spent()) - before
  console.log(`End with 10,000 rows: ${(1000 * took).toFixed(0)} ms of work, ${await p.locator('.rows-row').count()} rows in the page`)
  expect(await p.locator('.rows-row').count()).toBeLessThanOrEqual(60)
  // Of the processor's time, as in budget.ts.
  expect(took).toBeLessThan(0.2)
})

const mib = 1 << 20

test('half an hour of following: the heap stays below 120 MB, and flat', { timeout: 240_000 }, async () => {
  const p = await open(at.root + '#/shop/streams/flood?follow=1', { clock: true })
  await p
    .locator('[data-test=loaded]')
    .getByText(/^the last/)
    .waitFor()
  const cdp = await p.context().newCDPSession(p)
  const heap = async () => {
    await cdp.send('HeapProfiler.collectGarbage')
    return (await cdp.send('Runtime.getHeapUsage')).usedSize
  }
  let answers = 0
  p.on('requestfinished', r => (answers += r.url().includes('/flood/messages') ? 1 : 0))
  const sizes: number[] = []
  // 30 minutes, in each of which 1,000 records come: from the eleventh on 10,000 are held.
  for (let minute = 1; minute <= 30; minute++) {
    await fetch(at.flood)
    for (let i = 0; i < 3; i++) {
      const before = answers
      await p.clock.runFor(20_000)
      await expect.poll(() => answers, { interval: 10 }).toBeGreaterThan(before)
    }
    if (minute >= 15 && minute % 5 === 0) sizes.push(await heap())
  }
  await p.locator('[data-test=loaded]').getByText('the last 10,000').waitFor()
  console.log(`heap while following: ${sizes.map(s => (s / mib).toFixed(1)).join(', ')} MiB`)
  expect(Math.max(...sizes)).toBeLessThan(120 * mib)
  expect(sizes.at(-1)! - sizes[0]!).toBeLessThan(sizes[0]! / 5)
})
