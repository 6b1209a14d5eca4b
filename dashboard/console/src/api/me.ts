import { useQuery } from '@tanstack/preact-query'
import { useEffect } from 'preact/hooks'
import { call, serverNow, sessionOver } from './client'
import type { Me } from './routes'
import { token } from './session'
import { addrOf, clientAddr } from '../lib/snippets'
import { strings } from '../strings'

const anyone: Me = { role: 'admin', namespaces: [], expires_at: null, read_only: false, client_addr: '' }

/** What the key and the mount allow. A node that does not say allows all; the API refuses for itself. */
export function useMe(): Me {
  const q = useQuery({
    queryKey: ['GET /api/v1/console/me'],
    queryFn: async ({ signal }) => {
      try {
        const { data } = await call('GET /api/v1/console/me', {}, { signal })
        clientAddr.set(addrOf(data.client_addr, location.hostname))
        return data
      } catch (e) {
        if ((e as Error).name === 'AbortError') throw e
        return anyone
      }
    },
    staleTime: 60_000,
    refetchOnWindowFocus: false,
  })
  return q.data ?? anyone
}

const longestTimer = 0x7fffffff

/** Asks for a key when the time of the session is over, though nothing is read just then. */
export function useSessionEnd() {
  const ends = useMe().expires_at
  useEffect(() => {
    if (ends === null || !token.get()) return
    let timer: ReturnType<typeof setTimeout>
    const wait = () => {
      const left = ends - serverNow()
      if (left <= 0) sessionOver()
      else timer = setTimeout(wait, Math.min(left, longestTimer))
    }
    wait()
    return () => clearTimeout(timer)
  }, [ends])
}

/** Why writing is not possible here; '' if it is. */
export function useReadOnly(): string {
  const me = useMe()
  if (me.read_only) return strings.readOnlyMount
  return me.role === 'read' ? strings.readRole : ''
}
