// One file for vitest: one browser for all tests, in this order; in the long form at the end what none of them has touched.
import './base'
import './kv'
import './screens'
import './budget'
import { full } from './browser'

if (full) {
  await import('./controls')
  await import('./full')
  await import('./untouched')
}
