// A browser that fails a test for whatever a user would not see but should not be: errors in the console, violations of the policy, requests to others.
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { record } from './recorder'

export const at = JSON.parse(process.env['FLOE_AT'] ?? '{}') as Record<
  'root' | 'prefix' | 'proxy' | 'reading' | 'guarded' | 'revoke' | 'flood' | 'admin' | 'reader' | 'narrow' | 'guest',
  string
>
export const full = process.env['FLOE_FULL'] === '1'

let browser: Browser
let context: BrowserContext
let page: Page
let complaints: string[] = []
let pending = 0 // requests
/** What a test expects to be complained about: a request that it makes fail. */
export let allowed: RegExp | null = null
export const allow = (what: RegExp | null) => (allowed = what)

beforeAll(async () => {
  mkdirSync('shots', { recursive: true })
  browser = await chromium.launch({
    executablePath: process.env['FLOE_CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  })
})

afterAll(async () => {
  await browser?.close()
})

interface Options {
  theme?: 'light' | 'dark'
  width?: number
  height?: number
  clock?: boolean // the time of the page can be moved on: see later
}

/** Opens a page of its own: what an earlier test has left in the browser is not in it. */
export async function open(url: string, options: Options = {}): Promise<Page> {
  await context?.close()
  complaints = []
  allowed = null
  context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    colorScheme: options.theme ?? 'light',
    timezoneId: 'Europe/Berlin',
    reducedMotion: 'reduce',
  })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await record(context)
  page = await context.newPage()
  if (options.clock) await page.clock.install()
  page.setDefaultTimeout(60_000)
  const start = url === 'about:blank' ? at.root : url
  const origin = new URL(start).origin
  const base = new URL('.', start).pathname
  page.on('console', m => {
    if (m.type() === 'error' || m.type() === 'warning') complaints.push(`${m.type()}: ${m.text()} ${m.location().url}`)
  })
  page.on('pageerror', e => complaints.push(`exception: ${e.message}\n${e.stack}`))
  pending = 0
  page.on('requestfinished', () => pending--)
  page.on('requestfailed', () => pending--)
  page.on('request', r => {
    pending++
    const to = new URL(r.url())
    if (to.protocol !== 'about:' && to.protocol !== 'data:' && to.protocol !== 'blob:' && (to.origin !== origin || !to.pathname.startsWith(base)))
      complaints.push(`request outside the mount: ${r.url()}`)
  })
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', e => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`))
  })
  await page.goto(url)
  return page
}

export const theContext = () => context

afterEach(() => {
  const unexpected = complaints.filter(c => !allowed?.test(c))
  complaints = []
  expect(unexpected).toEqual([])
})

/** Goes to a route of the page that is open. */
export async function to(p: Page, hash: string) {
  await p.evaluate(h => (location.hash = h), hash)
}

/**
 * Replaces the text of an editor. The old text is deleted first: where a browser inserts into
 * highlighted text it may copy the style, and the policy refuses that with a complaint.
 */
export async function write(editor: Locator, text: string) {
  await editor.press('Control+a')
  await editor.press('Backspace')
  await editor.page().keyboard.insertText(text)
}

/** Lets ms pass for a page with a clock, in steps: what is asked for in one has its answer before the next. */
export async function later(p: Page, ms: number, step = 1000) {
  for (let gone = 0; gone < ms; gone += step) {
    await p.clock.runFor(Math.min(step, ms - gone))
    await expect.poll(() => pending, { interval: 5 }).toBeLessThanOrEqual(0)
  }
}

/** Waits until a view is all there: nothing is loading, nothing is asked for. */
export async function settled(p: Page) {
  await p.locator('#main h1').waitFor()
  let quiet = 0
  await expect
    .poll(
      async () => {
        const loading = await p.locator('#main .skeleton').count()
        quiet = loading === 0 && pending <= 0 ? quiet + 1 : 0
        return quiet
      },
      { interval: 40 },
    )
    .toBeGreaterThan(2)
}

export const h1 = (p: Page, text: string | RegExp) => p.getByRole('heading', { level: 1, name: text }).waitFor()

/** Signs in on the page that asks for a key. */
export async function signIn(p: Page, key: string) {
  await h1(p, 'Sign in')
  await p.getByLabel('API key').fill(key)
  await p.keyboard.press('Enter')
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Fails if axe finds anything. */
export async function accessible(p: Page, what: string) {
  await p.evaluate(axe)
  const found = await p.evaluate(async () => {
    const { violations } = await (
      window as unknown as {
        axe: { run(o: object): Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }> }
      }
    ).axe.run({
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    })
    return violations.map(
      v =>
        `${v.id}: ${v.help}\n${v.nodes
          .slice(0, 3)
          .map(n => `  ${n.html.slice(0, 200)}\n  ${n.failureSummary.replace(/\n/g, ' ').slice(0, 300)}`)
          .join('\n')}`,
    )
  })
  if (found.length > 0) throw new Error(`${what}: ${found.join('\n')}`)
}

/** Nothing sticks out sideways, and nothing is drawn over the edge of the window. */
export async function fits(p: Page, what: string) {
  const wide = await p.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
  expect(wide, `${what} scrolls sideways`).toBeLessThanOrEqual(0)
  const cut = await p.evaluate(() => {
    // What stands in a part that scrolls can be brought into view.
    const scrolls = (el: Element) => {
      for (let e = el.parentElement; e; e = e.parentElement) if (e.scrollWidth > e.clientWidth && /auto|scroll/.test(getComputedStyle(e).overflowX)) return true
      return false
    }
    const seen = [...document.querySelectorAll<HTMLElement>('h1, h2, button, a.btn, input, select, label, [role=tab]')].filter(
      el => el.getClientRects().length > 0 && !el.closest('.sr, .offscreen, .skip') && getComputedStyle(el).visibility !== 'hidden',
    )
    const over = seen.filter(el => {
      const box = el.getBoundingClientRect()
      return (box.right > innerWidth + 1 || box.left < -1) && !scrolls(el)
    })
    const short = seen.filter(el => el.matches('.btn, [role=tab], h1') && el.scrollWidth > el.clientWidth + 1)
    return [...over, ...short].map(el => `${el.tagName} ${el.getAttribute('aria-label') ?? el.textContent?.slice(0, 40)}`)
  })
  expect(cut, `${what} has cut off`).toEqual([])
}

export async function shot(p: Page, name: string) {
  await p.screenshot({ path: `shots/${name}.png` })
}
