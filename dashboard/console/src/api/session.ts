// The bearer token of this tab. The API key is exchanged for it once and never kept.
import { localKey } from '../lib/mount'
import { store } from '../lib/store'

export interface Session {
  token: string
}

const name = () => localKey('session')

function stored(): string {
  try {
    return sessionStorage.getItem(name()) ?? ''
  } catch {
    return ''
  }
}

export const token = store<string>(stored())

/** Whether the node asks for a key: what auth/status said. */
export const authEnabled = store<boolean>(false)

/** Whether a key is asked for over what is open, because the session has ended. */
export const asking = store<boolean>(false)

let channel: BroadcastChannel | null = null

/** Begins a session here, and in the tabs of this mount that wait for one. */
export function signIn(next: string) {
  take(next)
  channel?.postMessage({ token: next })
}

function take(next: string) {
  token.set(next)
  try {
    sessionStorage.setItem(name(), next)
  } catch {
    // The token lasts as long as the page then.
  }
}

export function signOut() {
  forget()
  channel?.postMessage({ out: true })
}

export function forget() {
  token.set('')
  try {
    sessionStorage.removeItem(name())
  } catch {
    // There was none.
  }
}

/** Shares the token with other tabs of this mount, and asks them for theirs: the origin is the border of trust. out is called when another one has signed out. */
export async function joinTabs(out: () => void): Promise<void> {
  if (typeof BroadcastChannel === 'undefined') return
  const bus = (channel = new BroadcastChannel(name()))
  bus.onmessage = ({ data }: MessageEvent<{ ask?: boolean; token?: string; out?: boolean }>) => {
    if (data.ask && token.get()) bus.postMessage({ token: token.get() })
    else if (data.token && !token.get()) take(data.token)
    else if (data.out && token.get()) out()
  }
  if (token.get()) return
  bus.postMessage({ ask: true })
  await new Promise(done => setTimeout(done, 60))
}
