/** How an edge is known in a set. */
export const edgeKey = (from: string, to: string) => `${from}\n${to}`
