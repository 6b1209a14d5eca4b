// What controls there are, and which of them tests have touched: said by the page itself, so that a new control without a test is noticed.
import type { BrowserContext } from 'playwright-core'

const seen = new Map<string, string>()
const touched = new Set<string>()

/** The controls that no test has touched, and where they were seen first. */
export const untouched = () => [...seen].filter(([control]) => !touched.has(control)).map(([control, hash]) => `${control} (${hash})`)
/** All controls: screen, kind and name. */
export const controls = () => [...seen.keys()].sort()

export async function record(context: BrowserContext) {
  await context.exposeBinding('floeControl', ({ page }, control: string, by: 'seen' | 'touched') => {
    if (by === 'touched') touched.add(control)
    if (!seen.has(control)) seen.set(control, new URL(page.url()).hash)
  })
  await context.addInitScript(watch)
}

/** Runs in the page. */
function watch() {
  const say = (window as unknown as { floeControl: (control: string, by: string) => Promise<void> }).floeControl
  const what = 'button, input, select, textarea, [data-editor], [role=slider], [role=separator], [role=grid], [role=option], g[role=button]'
  const said = new Set<string>()
  // Parts that are the same wherever they are, and those that are one for each thing that is shown.
  const shared: [string, string][] = [
    ['.rows-head', 'list: heading'],
    ['.rows-row input', 'list: tick'],
    ['.rows', 'list'],
    ['.payload', 'payload'],
    ['.snippet', 'snippet'],
    ['.toast', 'toast'],
    ['.moment', 'time'],
    ['.timeline-row', 'timeline: step'],
    ['g[role=button]', 'graph: node'],
    ['.graph', 'graph'],
    ['[role=option]', 'palette: found'],
    ['.palette', 'palette'],
    ['.inspector-edge', 'inspector: edge'],
    ['.legend', 'floql: series'],
    ['[data-test=history]', 'kv: version'],
    ['[data-test=steps]', 'run: step'],
    ['.note', 'note'],
    ['.blank', 'blank'],
    ['.inspector > header', 'inspector'],
  ]
  const nameOf = (el: Element): string => {
    const label = el.getAttribute('aria-label')
    if (label) return label
    const labels = (el as HTMLInputElement).labels
    const from = labels?.[0] ?? el
    const text =
      from.querySelector(':scope > .label, :scope > .dim, :scope > .sr')?.textContent ?? (from === el || el.matches('[type=checkbox]') ? from.textContent : '')
    return (text || el.getAttribute('title') || '').trim()
  }
  const area = (el: Element): string => {
    const dialog = el.closest('dialog')
    if (dialog) return 'dialog ' + (dialog.querySelector('h2')?.textContent ?? '').split(' ')[0]
    if (el.closest('.top, .side')) return 'shell'
    const [, screen = '', id] = location.hash.replace(/\?.*/, '').replace(/^#\//, '').split('/')
    const page = screen || location.hash.replace(/^#\/|\?.*/g, '')
    return page + (el.closest('.inspector') ? ' inspector' : id !== undefined && !['kv', 'workers'].includes(page) ? ' detail' : '')
  }
  const control = (el: Element): string => {
    for (const [selector, as] of shared) if (el.closest(selector)) return ['payload', 'blank', 'note', 'inspector'].includes(as) ? `${as}: ${part(el)}` : as
    return `${area(el)}: ${(el.getAttribute('role') ?? el.tagName.toLowerCase()) + (el.matches('[type=checkbox]') ? ' box' : '')} ${nameOf(el)
      .replace(/ [\d,.–]+( .*)?$/, '')
      .replace(/[\d,.–]+/g, '#')
      .slice(0, 40)}`
  }
  const part = (el: Element) => (el.getAttribute('aria-label') ?? el.textContent ?? '').split(' ')[0]!
  const tell = (el: Element, by: 'seen' | 'touched') => {
    const text = control(el)
    if (said.has(by + text)) return
    said.add(by + text)
    void say(text, by)
  }
  const touch = (e: Event) => {
    const el = e.target instanceof Element ? e.target.closest(what) : null
    if (!el) return
    if (e.type === 'keydown' && !el.matches('[role=slider], [role=separator], [role=grid], [data-editor], [role=combobox]')) return
    tell(el, 'touched')
  }
  for (const type of ['click', 'input', 'change', 'keydown']) addEventListener(type, touch, true)
  const scan = () => {
    for (const el of document.querySelectorAll(what)) tell(el, 'seen')
  }
  new MutationObserver(scan).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ['aria-label', 'open'] })
}
