select job_id, metric, avg(d5) median, avg(d9 - d1) spread
from 'weir-data/archive/summaries/*/*.parquet' group by all order by all;
