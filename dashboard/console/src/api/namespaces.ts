import { useRead } from './hooks'
import { useMe } from './me'

export const useNamespaces = () => useRead('GET /api/v1/namespaces', {}, 15_000)

/** Whether a namespace does not exist. A key for some namespaces does not list the others. */
export function useMissing(ns: string): boolean {
  const all = useNamespaces().data
  const limited = (useMe().namespaces?.length ?? 0) > 0
  return !!all && all.next === '' && !limited && !all.data.some(n => n.name === ns)
}
