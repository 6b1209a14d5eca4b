// What a first visit may cost, where it does not depend on how busy the machine is; the times are told, not judged.
import { expect, test } from 'vitest'
import { at, full, open, settled } from './browser'

const kib = 1024

const first = [
  // route, bytes of files as they are sent, files, calls of the API, nodes of the page
  ['#/shop/overview', 62 * kib, 20, 9, 1500],
  ['#/shop/kv?prefix=session%2F', 62 * kib, 20, 7, 1500],
  ['#/shop/ts/cpu?range=6h', 88 * kib, 22, 10, 1500],
] as const

for (const [hash, mostBytes, mostFiles, mostCalls, mostNodes] of first) {
  test(`budget: a first visit of ${hash}`, async () => {
    const p = await open('about:blank')
    const cdp = await p.context().newCDPSession(p)
    await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
    if (full) await cdp.send('Emulation.setCPUThrottlingRate', { rate: 4 })
    // Paused: on a busy machine some reads would be repeated before the last one has its answer.
    await p.goto(at.root + hash + (hash.includes('?') ? '&' : '?') + 'refresh=paused')
    await settled(p)
    const usable = await p.evaluate(() => performance.now())
    const got = await p.evaluate(() => {
      const all = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
      const page = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming
      const files = all.filter(r => !r.name.includes('/api/'))
      return {
        bytes: files.reduce((sum, r) => sum + r.encodedBodySize, page.encodedBodySize),
        files: files.length,
        calls: all.length - files.length,
        nodes: document.querySelectorAll('*').length,
        paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0,
      }
    })
    const { metrics } = await cdp.send('Performance.getMetrics')
    // Of the processor's time, not of the wall: what another process takes is not in it.
    const work = metrics.find(m => m.name === 'TaskDuration')!.value
    console.log(
      `${hash}: ${(got.bytes / kib).toFixed(1)} KiB in ${got.files} files, ${got.calls} calls, ${got.nodes} nodes; painted after ${got.paint.toFixed(0)} ms, ` +
        `all there before ${usable.toFixed(0)} ms, ${(1000 * work).toFixed(0)} ms of work${full ? ', slowed 4 times' : ''}`,
    )
    expect(got.bytes).toBeLessThanOrEqual(mostBytes)
    expect(got.files).toBeLessThanOrEqual(mostFiles)
    expect(got.calls).toBeLessThanOrEqual(mostCalls)
    expect(got.nodes).toBeLessThanOrEqual(mostNodes)
    expect(await p.locator('.rows-row').count()).toBeLessThanOrEqual(60)
    // Some 250 ms are usual: this is for what works in a loop.
    expect(work).toBeLessThan(5)
  })
}
