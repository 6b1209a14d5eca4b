// Package rawjson walks JSON as bytes, and shows bytes that are JSON most of the time: inputs and
// outputs, which programs give as they like.
package rawjson
