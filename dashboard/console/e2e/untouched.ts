import { writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { controls, untouched } from './recorder'

/** Without a test, and why. */
const excused = [
  /Signing in…/, // the button while it is locked
  /Current value \(version/, // to be read only
]

test('every control that was seen was touched by a test', () => {
  writeFileSync('shots/controls.txt', controls().join('\n') + '\n')
  expect(untouched().filter(c => !excused.some(e => e.test(c)))).toEqual([])
})
