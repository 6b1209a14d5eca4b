// Package expression is the language of expressions over records: amount > 100 && country in ["DE",
// "FR"]. Its syntax is that of expr-lang/expr, whose parser reads it; what it means is defined
// here, so that an expression has a bound on what it costs, reads only those parts of a value that
// it names, and depends on nothing but its record: there is no clock in it, no chance and no order
// of a map.
//
// A name is a member of the record's JSON value (amount, customer.id, items[0].sku; $.amount is the
// same), but for key, headers and event_time, which are the record's own; $.key is the member. What
// is not there is null. Whole numbers are int64, and what leaves their range is an error; other
// numbers are float64. Strings are compared by their bytes, null equals only null, and an operator
// whose operands it does not go with is an error.
package expression
