import './css/tokens.css'
import './css/base.css'
import { QueryClientProvider } from '@tanstack/preact-query'
import { render } from 'preact'
import { call, refused } from './api/client'
import { client, watchSelection } from './api/hooks'
import { authEnabled, joinTabs, token } from './api/session'
import { startKeys } from './lib/keys'
import { applyPrefs } from './lib/prefs'
import { formatRoute, parseRoute, replace, startRouter } from './lib/router'
import { Shell } from './ui/Shell'

/** Goes to the login and, after it, back. */
function askForKey() {
  authEnabled.set(true)
  const now = parseRoute(location.hash)
  if (now.screen !== 'login') replace(formatRoute({ ns: '', screen: 'login', id: [], query: { next: location.hash } }))
}

async function boot() {
  applyPrefs()
  startRouter()
  startKeys()
  watchSelection()
  refused.handler = askForKey
  try {
    const { data } = await call('GET /api/v1/auth/status')
    authEnabled.set(data.auth_enabled)
    if (data.auth_enabled && !data.authenticated) {
      if (!token.get()) await joinTabs()
      if (!token.get()) askForKey()
    } else void joinTabs()
  } catch {
    // A node that can not be reached, or does not know of keys: the screens say so, or are open.
  }
  render(
    <QueryClientProvider client={client}>
      <Shell />
    </QueryClientProvider>,
    document.getElementById('app')!,
  )
}

void boot()
