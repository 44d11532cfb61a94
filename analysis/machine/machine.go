// Package machine makes the reports about the whole machine: utilisation, wasted cores, users off their class.
package machine
