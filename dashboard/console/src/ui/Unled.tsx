import { useRead } from '../api/hooks'
import type { Shard } from '../api/routes'
import { strings } from '../strings'
import { Icon } from './Icon'

/** The shards as the node sees them: an answer that needs none of them. */
export const useShards = () => useRead('GET /api/v1/console/shards', {}, 5000)

export const unled = (shards: readonly Shard[]) => shards.filter(s => s.leader === 0)

/** Shards without a leader, shown on every screen, because its data may be in one of them. */
export function Unled() {
  const shards = useShards().data?.data ?? []
  const without = unled(shards).map(s => s.id)
  if (without.length === 0) return null
  return (
    <div class="note warn" role="status" data-test="unled">
      <Icon name="warn" size={14} />
      {strings.unled(without, shards.length)}
    </div>
  )
}
