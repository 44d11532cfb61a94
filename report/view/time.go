package view

import "time"

// Time is a time as all reports show it: in UTC, like the dates of the archive, of flags and of SQL.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Clock writes the time of day. Its Z marks it as UTC.
func Clock(ms int64) string { return Time(ms).Format("15:04:05Z") }
