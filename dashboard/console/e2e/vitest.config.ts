import { defineConfig } from 'vitest/config'

// One browser, one page at a time: the machine that runs this has two cores. What is tried on all screens belongs to the long form.
export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    include: ['**/all.test.ts'],
    reporters: ['default'],
  },
})
