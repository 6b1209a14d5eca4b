import { useQuery } from '@tanstack/preact-query'
import { call } from './client'
import type { Me } from './routes'
import { strings } from '../strings'

const anyone: Me = { role: 'admin', namespaces: [], expires_at: null, read_only: false }

/** What the key and the mount allow. A node that does not say allows all; the API refuses for itself. */
export function useMe(): Me {
  const q = useQuery({
    queryKey: ['GET /api/v1/console/me'],
    queryFn: async ({ signal }) => {
      try {
        return (await call('GET /api/v1/console/me', {}, { signal })).data
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

/** Why writing is not possible here; '' if it is. */
export function useReadOnly(): string {
  const me = useMe()
  if (me.read_only) return strings.readOnlyMount
  return me.role === 'read' ? strings.readRole : ''
}
