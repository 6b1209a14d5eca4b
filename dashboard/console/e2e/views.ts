// The views of the console: a row a screen and state of it, for what is tried on all of them.
import { at } from './browser'

export const views: [string, string][] = [
  ['overview', '#/shop/overview'],
  ['kv', '#/shop/kv/config%2Fcheckout'],
  ['streams', '#/shop/streams'],
  ['stream', '#/shop/streams/orders'],
  ['groups', '#/shop/streams/orders?tab=groups&group=search'],
  ['partitions', '#/shop/streams/orders?tab=partitions'],
  ['queues', '#/shop/queues'],
  ['queue', '#/shop/queues/newsletter?state=dlq&seq=5'],
  ['ts', '#/shop/ts'],
  ['measurement', '#/shop/ts/checkout?range=6h'],
  ['floql', '#/shop/floql?q=cpu%5B6h%5D%20%7C%20field(usage)%20%7C%20window(5m)%20%7C%20group_by(host)%20%7C%20avg()'],
  ['actions', '#/shop/actions'],
  ['action', '#/shop/actions/charge'],
  ['workers', '#/shop/workers/clerk-1'],
  ['processing', '#/shop/processing'],
  ['job', '#/shop/processing/enrich'],
  ['failed-job', '#/shop/processing/tax'],
  ['workflows', '#/shop/workflows'],
  ['workflow', '#/shop/workflows/order?tab=graph'],
  ['runs', '#/shop/workflows/order'],
  ['run', '#/shop/runs/order-4201'],
  ['failed-run', '#/shop/runs/order-4202'],
  ['waiting-run', '#/shop/runs/order-4207'],
  ['schedules', '#/shop/schedules?schedule=workflow%2Freport'],
  ['access', '#/default/access'],
  ['audit', '#/default/access?tab=audit'],
  ['settings', '#/settings'],
  ['about', '#/about'],
  ['empty', '#/sandbox/kv'],
]

/** The address of a view: jobs have ids that no test knows. */
export async function address(hash: string): Promise<string> {
  const [, name, query = ''] = /^#\/shop\/processing\/([^?]+)(.*)$/.exec(hash) ?? []
  if (!name) return hash
  const jobs = (await (await fetch(at.root + 'api/v1/processing/jobs?namespace=shop')).json()) as { name: string; job_id: string }[]
  return `#/shop/processing/${jobs.find(j => j.name === name)!.job_id}${query}`
}
