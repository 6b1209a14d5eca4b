import './css/tokens.css'
import './css/base.css'
import { QueryClientProvider } from '@tanstack/preact-query'
import { render } from 'preact'
import { call, refused, sessionOver } from './api/client'
import { client, watchSelection } from './api/hooks'
import { asking, authEnabled, forget, joinTabs, token } from './api/session'
import { startKeys } from './lib/keys'
import { applyPrefs } from './lib/prefs'
import { formatRoute, replace, route, startRouter } from './lib/router'
import { Shell } from './ui/Shell'

const atLogin = () => route.get().screen === 'login'

/** Asks for a key where the session has ended: what is open stays open. */
function askAgain() {
  authEnabled.set(true)
  if (!atLogin()) asking.set(true)
}

async function boot() {
  applyPrefs()
  startRouter()
  startKeys()
  watchSelection()
  refused.handler = askAgain
  try {
    const { data } = await call('GET /api/v1/auth/status')
    authEnabled.set(data.auth_enabled)
    if (data.auth_enabled && !data.authenticated) {
      forget() // a token that this tab has kept is good no more
      await joinTabs(sessionOver)
      // Nothing is open yet: the login leads to where one wanted to go.
      if (!token.get() && !atLogin()) replace(formatRoute({ ns: '', screen: 'login', id: [], query: { next: location.hash } }))
    } else void joinTabs(sessionOver)
  } catch {
    // A node that cannot be reached, or has no keys: the screens report the one and open for the other.
  }
  render(
    <QueryClientProvider client={client}>
      <Shell />
    </QueryClientProvider>,
    document.getElementById('app')!,
  )
}

void boot()
