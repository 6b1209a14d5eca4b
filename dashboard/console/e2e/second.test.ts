// The other half of the short form: the screens, and what they cost.
import './kv'
import './screens'
import './budget'
