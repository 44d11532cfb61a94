// Package simulated makes up networks and measures them with noise, so that discovery can be tried where no cluster is.
package simulated
