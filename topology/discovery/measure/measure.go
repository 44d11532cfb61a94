// Package measure measures latencies and throughput for real. Between nodes it uses UDP. Between the processors of a
// node it uses cache lines that two threads share.
package measure
