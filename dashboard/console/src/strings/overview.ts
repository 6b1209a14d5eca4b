import { plural } from '../lib/format'

export const overview = {
  role: (role: string) => `role ${role}`,
  commandsPerSecond: 'Commands per second',
  lately: 'over the last 10 s',
  sinceStart: 'since the start',
  waitingReads: 'Waiting reads',
  readsHint: 'long polls and watches',
  commandRate: 'Command rate',
  rateLabel: (now: string, peak: string) => `Commands per second over five minutes, now ${now}, at most ${peak}`,
  fiveMinutesAgo: '5 minutes ago',
  rateLater: 'The line begins with the next reading.',
  rateNow: 'now {now}/s · peak {peak}/s · 5 minutes',
  everywhere: (streams: number, queues: number, kv: number) =>
    `all namespaces: ${plural(streams, 'stream')}, ${plural(queues, 'queue')}, ${plural(kv, 'KV namespace')}`,
  fiveMinutes: 'Five minutes',
  perSecond: 'Per second',
  sinceStartTitle: 'Since the start',
  receivedLabel: (peak: string) => `Received per second over five minutes, at most ${peak}`,
  sentLabel: (peak: string) => `Sent per second over five minutes, at most ${peak}`,
  namespace: (ns: string) => `Namespace ${ns}`,
  noNamespace: 'This namespace does not exist yet. The first write creates it.',
  activeRuns: 'Active runs',
}
