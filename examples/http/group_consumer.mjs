// A member of a consumer group: reads records, acknowledges them, and returns those that fail.

const base = (process.env.FLOE_URL ?? 'http://127.0.0.1:9002') + '/api/v1'

/** Sends a request and returns the JSON of the response. */
async function call(method, path, body) {
  const response = await fetch(base + path, { method, body: body && JSON.stringify(body) })
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error)
  return answer
}

await call('PUT', '/streams/js-orders', { partitions: 1, retention: { max_age_ms: 86_400_000 } })
const messages = ['ann', 'bob', 'ann', 'cid'].map((customer, i) => ({ key: customer, payload: JSON.stringify({ total: (i + 1) * 10 }) }))
await call('POST', '/streams/js-orders/messages', { messages, dedup: { producer: 'shop', sequence: 1 } })
await call('POST', '/streams/js-orders/messages', { messages, dedup: { producer: 'shop', sequence: 1 } }) // changes nothing

const group = '/streams/js-orders/groups/billing'
await call('PUT', group, { mode: 'shared', ack_timeout_ms: 30_000, max_attempts: 3 })

const totals = {}
let acked = 0
while (acked < messages.length) {
  const { records } = await call('POST', `${group}/read`, { consumer: 'js-1', limit: 10, wait_ms: 5_000 })
  const done = []
  for (const record of records) {
    if (record.key === 'bob' && record.attempt === 1) {
      await call('POST', `${group}/nack`, { refs: [record.ref], reason: 'not yet', delay_ms: 0 })
      console.log(`${record.key}: returned`)
      continue
    }
    totals[record.key] = (totals[record.key] ?? 0) + JSON.parse(record.payload).total
    console.log(`${record.key}, attempt ${record.attempt}: total ${totals[record.key]}`)
    done.push(record.ref)
  }
  if (done.length > 0) acked += (await call('POST', `${group}/ack`, { refs: done })).acked
}
await call('POST', `${group}/leave`, { consumer: 'js-1' })
const { lag, pending } = await call('GET', group)
console.log(`lag ${lag}, pending ${pending}`)
