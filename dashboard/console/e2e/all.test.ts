// The long form: one browser for all tests, in this order, and at the end what none of them has touched.
import './base'
import './kv'
import './screens'
import './budget'
import './controls'
import './full'
import './writes'
import './untouched'
