/** The counts by which namespaces are compared. */
interface Counts {
  name: string
  is_system: boolean
  stream_count: number
  queue_count: number
  kv_count: number
  workflow_count: number
  processing_count: number
  action_count: number
}

const sizeOf = (n: Counts) => n.stream_count + n.queue_count + n.kv_count + n.workflow_count + n.processing_count + n.action_count

/** The namespace with the most in it, for a visitor without a choice; '' if default is not empty, or all are. */
export function busiest(all: readonly Counts[]): string {
  if (all.some(n => n.name === 'default' && sizeOf(n) > 0)) return ''
  const most = all.filter(n => !n.is_system && sizeOf(n) > 0).sort((a, b) => sizeOf(b) - sizeOf(a))[0]
  return most?.name ?? ''
}
