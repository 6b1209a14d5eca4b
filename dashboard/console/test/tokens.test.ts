import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const css = readFileSync('src/css/tokens.css', 'utf8')
const colours = new Map([...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(m => [m[1]!, [m[2]!, m[3]!] as const]))

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as [
    number,
    number,
    number,
  ]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)]
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)
}

test('text has a contrast of 4.5, controls and series of 3, on every background in both themes', () => {
  const low: string[] = []
  for (const theme of [0, 1] as const) {
    for (const ground of ['bg', 'surface', 'sunken', 'hover']) {
      for (const [name, values] of colours) {
        if (['bg', 'surface', 'sunken', 'hover', 'line'].includes(name)) continue
        const least = name === 'line-strong' || name.startsWith('series') ? 3 : 4.5
        const got = contrast(values[theme], colours.get(ground)![theme])
        if (got < least) low.push(`${name} on ${ground}: ${got.toFixed(2)}`)
      }
    }
  }
  expect(colours.size).toBeGreaterThan(20)
  expect(low).toEqual([])
})
